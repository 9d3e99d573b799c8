//! Secrets and certificates that change while a node runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Digest;

use crate::authority::{NEW, openssl};
use crate::desk::{Desk, Running, lines, next_of, until};

/// Starts a node that receives on a free port, and returns the port.
pub(crate) fn receiving(desk: &Desk) -> (Running, u16) {
    let up = desk.start(&["up", "--print"]);
    let said = up.wait_for("receives at");
    up.wait_for("Try it in another terminal");
    let port = said.split("://127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    (up, port.unwrap_or_else(|| panic!("{said}")))
}

/// Posts as GitHub does; returns the status.
fn deliver(port: u16, id: &str, secret: &str) -> u16 {
    // A delivery is known by its body.
    let body = &format!(r#"{{"order":{id}}}"#);
    let mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body).finalize();
    let signature: String = mac.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let event = format!("x-github-delivery: {id}\r\nx-github-event: push\r\nx-hub-signature-256: sha256={signature}");
    post(port, "/_rf/hooks/github", &event, body)
}

/// Posts JSON; returns the status.
fn post(port: u16, path: &str, headers: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close");
    let kind = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    write!(stream, "{head}\r\n{headers}\r\n{kind}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_new_secret_of_a_hook_is_good_from_the_signal_on_and_the_old_one_is_not() {
    let desk = Desk::new();
    let (old, new) = ("the old secret of the hook, long enough", "the new secret of the hook, long enough");
    desk.write("hook.key", old);
    let hook = "[hooks.github]\nscheme = \"github\"\nsecret = { file = \"hook.key\" }\n";
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n{hook}"));
    let (up, port) = receiving(&desk);
    assert!((200..300).contains(&deliver(port, "1", old)));
    assert_eq!(deliver(port, "2", new), 401);
    desk.write("hook.key", new);
    up.hang_up();
    up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    assert!((200..300).contains(&deliver(port, "2", new)));
    assert_eq!(deliver(port, "3", old), 401);
    until("both are handled", || desk.json(&["stats"])["inbox"]["done"] == 2);
    desk.write("postroom.toml", "[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n");
    up.hang_up();
    up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    assert_eq!(deliver(port, "4", new), 401, "a hook that is gone is closed");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n{hook}"));
    up.hang_up();
    up.wait_for("SIGHUP: restart the node to apply [hooks.github]");
}

fn issue(desk: &Desk, name: &str) {
    openssl(desk, &format!("{NEW} -subj /CN={name} -keyout server.key -out server.pem"));
}

/// Posts a message of `orders` with version 1 of the wire; returns the status.
fn deliver_v1(port: u16, id: &str, secret: &str) -> u16 {
    let payload: String = sha2::Sha256::digest("7").iter().map(|byte| format!("{byte:02x}")).collect();
    let mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let mac = mac.chain_update(format!("{id}ordersstock.reserve{payload}")).finalize().into_bytes();
    let signature = base64::engine::general_purpose::STANDARD.encode(mac);
    let body = serde_json::json!({
        "messageId": id, "sourceServiceId": "orders", "messageType": "Command", "endpoint": "stock.reserve",
        "payload": 7, "headers": { "rf-hmac": signature },
    });
    post(port, "/_rf/receive", "rf-nothing: 0", &body.to_string())
}

#[test]
fn version_1_is_refused_from_the_signal_on() {
    let (desk, secret) = (Desk::new(), "the secret of the two, which is long enough");
    desk.write("shop.key", secret);
    let allowing = |allowed: bool| {
        let source = format!("[sources.orders]\nkeys = {{ a = {{ file = \"shop.key\" }} }}\nallow_v1 = {allowed}\n");
        desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n{source}"));
    };
    allowing(true);
    let (up, port) = receiving(&desk);
    let id = |last: u8| format!("a1b2c3d4-e5f6-7890-abcd-ef123456789{last}");
    assert_eq!(deliver_v1(port, &id(0), secret), 202);
    for (last, allowed, status) in [(1, false, 401), (2, true, 202), (3, false, 401)] {
        allowing(allowed);
        up.hang_up();
        up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
        assert_eq!(deliver_v1(port, &id(last), secret), status);
    }
}

/// A TLS connection that stays open.
struct Open(Child, Receiver<String>);

impl Open {
    fn to(port: u16) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")]);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let answers = lines(client.stdout.take().unwrap());
        Self(client, answers)
    }

    /// Requests a missing path, and waits for the answer.
    fn ask(&mut self) {
        let asked = b"GET /nowhere HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        self.0.stdin.as_mut().unwrap().write_all(asked).unwrap();
        while !next_of(&self.1).contains("HTTP/1.1 4") {}
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_new_certificate_is_shown_from_the_signal_on_and_open_connections_go_on() {
    let desk = Desk::new();
    issue(&desk, "first");
    let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"https://127.0.0.1:0\"]\n{tls}"));
    let (up, port) = receiving(&desk);
    is_renewed(&desk, &up, port);
}

#[test]
fn a_new_certificate_of_the_admin_listener_is_shown_from_the_signal_on() {
    let desk = Desk::new();
    issue(&desk, "first");
    let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n[admin]\nlisten = \"127.0.0.1:0\"\n{tls}"));
    let up = desk.start(&["up"]);
    let said = up.wait_for("serves the HTTP API at https://127.0.0.1:");
    up.wait_for("Try it in another terminal");
    is_renewed(&desk, &up, said.rsplit(':').next().and_then(|port| port.trim().parse().ok()).unwrap());
}

/// Replaces the certificate during requests, and then tries an invalid one.
fn is_renewed(desk: &Desk, up: &Running, port: u16) {
    let shown = || openssl(desk, &format!("s_client -connect 127.0.0.1:{port} -showcerts"));
    assert!(shown().contains("CN = first") || shown().contains("CN=first"), "{}", shown());
    let mut open = Open::to(port);
    open.ask();
    issue(desk, "second");
    up.hang_up();
    let said = up.wait_for("SIGHUP: ");
    assert!(said.contains("secrets, tokens, sources, services and handlers"), "{said}");
    let said = up.wait_for("SIGHUP: ");
    assert!(said.contains("reloaded certificates; new connections use them"), "{said}");
    open.ask();
    assert!(shown().contains("CN = second") || shown().contains("CN=second"), "{}", shown());
    desk.write("server.pem", "no certificate");
    up.hang_up();
    up.wait_for("SIGHUP: the configuration was not reloaded");
    assert!(shown().contains("second"));
}
