//! Secrets and certificates that change while a node runs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use hmac::{Hmac, KeyInit, Mac};

use crate::desk::{Desk, until};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
    let (desk, port) = (Desk::new(), free_port());
    let (old, new) = ("the old secret of the hook, long enough", "the new secret of the hook, long enough");
    desk.write("hook.key", old);
    let hook = "[hooks.github]\nscheme = \"github\"\nsecret = { file = \"hook.key\" }\n";
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:{port}\"]\n{hook}"));
    let up = desk.start(&["up"]);
    up.wait_for("takes webhooks at /_rf/hooks/github");
    up.wait_for("Try it in another terminal");
    assert!((200..300).contains(&deliver(port, "1", old)));
    assert_eq!(deliver(port, "2", new), 401);
    desk.write("hook.key", new);
    up.hang_up();
    up.wait_for("SIGHUP: secrets, services and handlers are those of the configuration now");
    assert!((200..300).contains(&deliver(port, "2", new)));
    assert_eq!(deliver(port, "3", old), 401);
    until("both are handled", || desk.json(&["stats"])["inbox"]["done"] == 2);
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"http://127.0.0.1:{port}\"]\n"));
    up.hang_up();
    up.wait_for("SIGHUP: a restart is needed for [hooks.github]");
}

fn openssl(desk: &Desk, args: &str) -> String {
    let mut command = Command::new("openssl");
    let ran = command.args(args.split(' ')).current_dir(desk.path("")).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn issue(desk: &Desk, name: &str) {
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(desk, &format!("{new} -subj /CN={name} -keyout server.key -out server.pem"));
}

#[test]
fn a_new_certificate_is_shown_from_the_signal_on() {
    let (desk, port) = (Desk::new(), free_port());
    issue(&desk, "first");
    let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
    desk.write("postroom.toml", &format!("[receiver]\nlisten = [\"https://127.0.0.1:{port}\"]\n{tls}"));
    let up = desk.start(&["up"]);
    up.wait_for("Try it in another terminal");
    let shown = || openssl(&desk, &format!("s_client -connect 127.0.0.1:{port} -showcerts"));
    assert!(shown().contains("CN = first") || shown().contains("CN=first"), "{}", shown());
    issue(&desk, "second");
    up.hang_up();
    up.wait_for("SIGHUP: whoever connects from now on sees the certificate of the file");
    assert!(shown().contains("CN = second") || shown().contains("CN=second"), "{}", shown());
    desk.write("server.pem", "no certificate");
    up.hang_up();
    up.wait_for("SIGHUP: the configuration stays as it was");
    assert!(shown().contains("second"));
}
