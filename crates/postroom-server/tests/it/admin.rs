//! The admin listener of a running node, with the commands that the node prints at its start.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::desk::{Desk, Running, until};

/// A command line that the node prints: `  curl -s -H 'authorization: Bearer …' http://…`, perhaps with a message.
struct Printed {
    address: String,
    path: String,
    token: String,
    message: Option<String>,
}

impl Printed {
    fn read(line: &str) -> Self {
        let line = line.strip_prefix("  curl -s -H 'authorization: Bearer ").unwrap_or_else(|| panic!("{line}"));
        let (token, line) = line.split_once("' http://").unwrap();
        let (url, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (address, path) = url.split_at(url.find('/').unwrap());
        let message = rest.split_once("-d '").map(|(_, message)| message.trim_end_matches('\'').to_owned());
        Self { address: address.to_owned(), path: path.to_owned(), token: token.to_owned(), message }
    }

    fn ask(&self) -> Value {
        let said = self.ask_for(&self.path, Some(&self.token));
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    }

    /// The body of an answer.
    fn ask_for(&self, path: &str, token: Option<&str>) -> String {
        let (method, body) = if let Some(body) = &self.message { ("POST", body.as_str()) } else { ("GET", "") };
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let (host, length) = (&self.address, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{token}");
        let mut stream = TcpStream::connect(host).unwrap();
        let kind = "content-type: application/json";
        write!(stream, "{head}{kind}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

fn start(desk: &Desk) -> (Running, Vec<Printed>) {
    let up = desk.start(&["up"]);
    let told = up.wait_for("Admin page: ");
    let file = told.split_once(", with the token in ").unwrap().1;
    let lines = std::fs::read_to_string(file).unwrap();
    let lines = lines.lines().filter(|line| line.contains("curl")).map(Printed::read).collect();
    up.wait_for("Try it in another terminal");
    (up, lines)
}

/// A token that may do everything must not go to a log.
#[test]
fn the_token_is_in_a_file_that_only_its_owner_can_read_and_not_in_the_log() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    let mut up = desk.start(&["up"]);
    let told = up.wait_for("Admin page: ");
    let file = told.split_once(", with the token in ").unwrap().1;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let token =
        std::fs::read_to_string(file).unwrap().split_once("#token=").unwrap().1.lines().next().unwrap().to_owned();
    up.wait_for("Press Ctrl-C to stop.");
    up.terminate();
    up.end();
    assert!(token.len() > 30 && !up.rest_of_stderr().contains(&token));
}

#[test]
fn the_printed_lines_send_a_message_and_show_that_it_was_handled() {
    let desk = Desk::new();
    let (mut up, lines) = start(&desk);
    let sent = lines[0].ask();
    assert_eq!(sent["duplicate"], false, "{sent}");
    assert_eq!(up.next_json()["id"], sent["messageId"]);
    until("it is done", || lines[1].ask()["sent"] == 1);
    assert_eq!(lines[2].ask()["messages"], Value::Array(Vec::new()));
    let asked = &lines[1];
    let metrics = asked.ask_for("/metrics", Some(&asked.token));
    assert!(metrics.contains("rf_outbox_send_duration_ms_bucket"), "{metrics}");
    assert!(asked.ask_for("/_rf/health", None).contains("green"));
    assert!(asked.ask_for("/_rf/outbox/stats", None).contains("this request needs a valid token"));
    up.terminate();
    assert!(up.end().success(), "{}", up.rest_of_stderr());
}

#[test]
fn a_second_node_takes_another_port() {
    let (first, second) = (Desk::new(), Desk::new());
    let (_first, lines) = start(&first);
    let (_second, others) = start(&second);
    assert_ne!(lines[1].address, others[1].address);
    assert_eq!((&lines[1].ask()["pending"], &others[1].ask()["pending"]), (&0.into(), &0.into()));
    assert!(others[1].ask_for("/_rf/outbox/stats", Some(&lines[1].token)).contains("this request needs a valid token"));
}

#[test]
fn a_configured_token_is_known_by_its_digest_and_none_is_printed() {
    let desk = Desk::new();
    // `printf %s secret | sha256sum`
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    desk.write(
        "postroom.toml",
        &format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{digest}\"]\nmay = [\"read\"]\n"),
    );
    let mut up = desk.start(&["up"]);
    let told = up.wait_for("serves the HTTP API at");
    let address = told.rsplit_once("http://").unwrap().1.trim().to_owned();
    let path = "/_rf/inbox/stats".to_owned();
    let mut asked = Printed { address, path, token: "secret".into(), message: None };
    assert_eq!(asked.ask()["size"], 0);
    (asked.path, asked.message) = ("/v1/messages".into(), Some("{}".into()));
    assert_eq!(asked.ask()["detail"], "the token test may not do this");
    up.terminate();
    up.end();
    assert!(!up.rest_of_stderr().contains("Bearer"), "a token was printed");
}

#[test]
fn a_token_is_made_used_and_revoked_without_a_restart() {
    let desk = Desk::new();
    let made = desk.json(&["token", "orders", "--may", "enqueue,read", "--expires", "30d"]);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let section = |digest: &str| {
        let listen = "[admin]\nlisten = \"127.0.0.1:0\"\n";
        format!("{listen}[tokens.orders]\ndigests = [\"{digest}\"]\nmay = [\"enqueue\", \"read\"]\n")
    };
    let expires = format!("expires = \"{}\"\n", text("expires"));
    desk.write("postroom.toml", &(section(&text("digest")) + &expires));
    let up = desk.start(&["up"]);
    let told = up.wait_for("serves the HTTP API at");
    let address = told.rsplit_once("http://").unwrap().1.trim().to_owned();
    let asked = Printed { address, path: "/_rf/inbox/stats".into(), token: text("token"), message: None };
    assert_eq!(asked.ask()["size"], 0);
    desk.write("postroom.toml", &section(&"ab".repeat(32)));
    up.hang_up();
    up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    assert_eq!(asked.ask()["detail"], "this request needs a valid token");
}

#[test]
fn a_token_is_shown_once_and_its_section_with_it() {
    let desk = Desk::new();
    let ran = desk.run(&["token", "orders", "--may", "pull:order.placed"]);
    let digest = ran.stderr.lines().find(|line| line.starts_with("digests")).unwrap_or_default();
    assert!(ran.stderr.contains("[tokens.orders]") && ran.stderr.contains("may = [\"pull:order.placed\"]"), "{ran:?}");
    assert!(!ran.stderr.contains(ran.stdout.trim()) && digest.len() > 64, "{ran:?}");
    for (args, wanted) in [
        (&["token", "orders", "--may", "write"][..], "write enqueue, pull, pull:TOPIC, read, payload or operate"),
        (&["token", "My Orders", "--may", "read"], "\"My Orders\" is not a valid name for a token"),
        (&["token", "orders"], "--may"),
    ] {
        let ran = desk.run(args);
        assert!(ran.code != Some(0) && ran.stderr.contains(wanted), "{ran:?}");
    }
}
