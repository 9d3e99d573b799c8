//! Secrets and certificates that change while a node runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::Receiver;

use hmac::{Hmac, KeyInit, Mac};

use crate::desk::{Desk, Running, lines, next_of, until};

/// Starts a node that receives at a free port, and says which.
fn receiving(desk: &Desk) -> (Running, u16) {
    let up = desk.start(&["up", "--print"]);
    let said = up.wait_for("receives at");
    up.wait_for("Try it in another terminal");
    let port = said.split("://127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    (up, port.unwrap_or_else(|| panic!("{said}")))
}

/// Posts as GitHub does; the status of the answer.
fn deliver(port: u16, id: &str, secret: &str) -> u16 {
    let body = r#"{"order":7}"#;
    let mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body).finalize();
    let signature: String = mac.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("POST /_rf/hooks/github HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close");
    let event = format!("x-github-delivery: {id}\r\nx-github-event: push\r\nx-hub-signature-256: sha256={signature}");
    let length = body.len();
    write!(stream, "{head}\r\n{event}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
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
    up.wait_for("SIGHUP: secrets, services and handlers are those of the configuration now");
    assert!((200..300).contains(&deliver(port, "2", new)));
    assert_eq!(deliver(port, "3", old), 401);
    until("both are handled", || desk.json(&["stats"])["inbox"]["done"] == 2);
    desk.write("postroom.toml", "[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n");
    up.hang_up();
    up.wait_for("SIGHUP: secrets, services and handlers are those of the configuration now");
    assert_eq!(deliver(port, "4", new), 401, "a hook that is gone is closed");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:0\"]\n{hook}"));
    up.hang_up();
    up.wait_for("SIGHUP: a restart is needed for [hooks.github]");
}

fn openssl(desk: &Desk, args: &str) -> Output {
    let mut command = Command::new("openssl");
    command.args(args.split(' ')).current_dir(desk.path("")).stdin(Stdio::null()).output().expect("openssl 3 is needed")
}

fn issue(desk: &Desk, name: &str) {
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    let issued = openssl(desk, &format!("{new} -subj /CN={name} -keyout server.key -out server.pem"));
    assert!(issued.status.success(), "{issued:?}");
}

/// A connection by TLS that stays open.
struct Open(Child, Receiver<String>);

impl Open {
    fn to(port: u16) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")]);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let answers = lines(client.stdout.take().unwrap());
        Self(client, answers)
    }

    /// Asks for something that is not there, and waits for the answer.
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
    let shown = || {
        let seen = openssl(&desk, &format!("s_client -connect 127.0.0.1:{port} -showcerts"));
        String::from_utf8_lossy(&seen.stdout).into_owned()
    };
    assert!(shown().contains("CN = first") || shown().contains("CN=first"), "{}", shown());
    let mut open = Open::to(port);
    open.ask();
    issue(&desk, "second");
    up.hang_up();
    up.wait_for("SIGHUP: whoever connects from now on sees the certificate of the file");
    open.ask();
    assert!(shown().contains("CN = second") || shown().contains("CN=second"), "{}", shown());
    desk.write("server.pem", "no certificate");
    up.hang_up();
    up.wait_for("SIGHUP: the configuration stays as it was");
    assert!(shown().contains("second"));
}
