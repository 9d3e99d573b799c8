//! A running node with third-party tools, if they are installed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/desk.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod desk;
#[path = "it/web.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod web;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use desk::{Desk, Running, next_of, until};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom::webhooks::WebhookSecret;
use serde_json::Value;
use web::{Asked, DIGEST};

/// Where schemathesis is: `cargo xtask test` installs one.
const SCHEMATHESIS: &str = "POSTROOM_TEST_SCHEMATHESIS";
/// Where a Python with an old SQLite in `apsw` is: `cargo xtask test` installs one.
const OLD_SQLITE: &str = "POSTROOM_TEST_OLD_SQLITE";
const OPENAPI: &str = include_str!("../src/admin/openapi.json");
const SCRIPT: &str = include_str!("../../../examples/any_language.py");
const GUIDE: &str = include_str!("../../../guides/any-language.md");

fn main() {
    let trials = vec![
        Trial::ignorable_test("schemathesis::no_answer_contradicts_the_description", || {
            let Ok(program) = std::env::var(SCHEMATHESIS) else {
                return Ok(Completion::ignored_with(format!("skipped: {SCHEMATHESIS} names no schemathesis")));
            };
            no_answer_contradicts_the_description(&program);
            Ok(Completion::Completed)
        }),
        Trial::ignorable_test("python::plain_sql_enqueues_with_the_sqlite_that_python_has", || {
            if !has_python() {
                return Ok(Completion::ignored_with("skipped: there is no python3"));
            }
            plain_sql_enqueues("python3", BY_SQLITE3);
            Ok(Completion::Completed)
        }),
        Trial::ignorable_test("python::plain_sql_enqueues_with_an_old_sqlite", || {
            let Ok(python) = std::env::var(OLD_SQLITE) else {
                return Ok(Completion::ignored_with(format!("skipped: {OLD_SQLITE} names no Python with apsw")));
            };
            plain_sql_enqueues(&python, BY_APSW);
            Ok(Completion::Completed)
        }),
        Trial::ignorable_test("python::q_leaves_top", || {
            if !has_python() {
                return Ok(Completion::ignored_with("skipped: there is no python3"));
            }
            q_leaves_top();
            Ok(Completion::Completed)
        }),
        Trial::ignorable_test("python::the_script_of_the_guide_sends_and_handles", || {
            if !has_python() {
                return Ok(Completion::ignored_with("skipped: there is no python3"));
            }
            the_script_of_the_guide_sends_and_handles();
            Ok(Completion::Completed)
        }),
        Trial::test("python::the_guide_shows_the_script_in_full", || {
            assert!(GUIDE.contains(SCRIPT), "guides/any-language.md and examples/any_language.py differ");
            assert!(SCRIPT.lines().count() < 40, "the script is too long to be read at a glance");
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok()
}

fn node(desk: &Desk, more: &str) -> (Running, Asked) {
    let may = "may = [\"enqueue\", \"pull\", \"operate\"]\n";
    let admin = format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\n{may}");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}{more}"));
    let up = desk.start(&["up"]);
    let asked = Asked::read(&up.wait_for("serves the HTTP API at"));
    up.wait_for("Try it in another terminal");
    (up, asked)
}

/// Hundreds of valid and invalid requests from the OpenAPI description: no answer is a server error, and each is
/// described.
fn no_answer_contradicts_the_description(program: &str) {
    let desk = Desk::new();
    let (_up, node) = node(&desk, "[handlers.\"*\"]\npull = true\n");
    let mut described: Value = serde_json::from_str(OPENAPI).unwrap();
    // No request waits for messages, or for one to be done.
    let status = &mut described["paths"]["/v1/messages/{messageId}"]["get"]["parameters"];
    assert_eq!(status.as_array_mut().unwrap().pop().unwrap()["name"], "wait");
    let claim = &mut described["components"]["schemas"]["Claim"]["properties"];
    claim.as_object_mut().unwrap().remove("waitSeconds").unwrap();
    // The node refuses a key that comes twice with different messages; a schema cannot describe that.
    for path in ["/v1/messages", "/v1/messages/batch"] {
        described["paths"][path]["post"].as_object_mut().unwrap().remove("parameters").unwrap();
    }
    // The node refuses a message that would expire before it is due; a schema cannot compare two numbers.
    let message = &mut described["components"]["schemas"]["NewMessage"]["properties"];
    message.as_object_mut().unwrap().remove("dueAfterSeconds").unwrap();
    desk.write("openapi.json", &described.to_string());
    let url = format!("http://{}", node.address);
    // A schema cannot describe the rules for selecting messages, so only the answers are checked.
    let rules = "positive_data_acceptance,negative_data_rejection";
    for part in [
        &["--exclude-path-regex", "^/admin/act/"][..],
        &["--include-path-regex", "^/admin/act/", "--exclude-checks", rules],
    ] {
        let ran = Command::new(program)
            .args(["run", "openapi.json", "--url", &url, "--header", "Authorization: Bearer secret"])
            .args(["--phases", "coverage,fuzzing", "--seed", "7", "--max-examples", "20", "--no-color"])
            .args(part)
            .current_dir(desk.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("Test cases:"), "{said}");
    }
}

/// The running script. Drop kills it.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn the_script_of_the_guide_sends_and_handles() {
    let (desk, secret) = (Desk::new(), WebhookSecret::generate());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    desk.write("handler.key", &secret);
    let handler = format!("[handlers.\"order.placed\"]\nurl = \"http://127.0.0.1:{port}/\"\n");
    let (_up, node) = node(&desk, &format!("{handler}secret = {{ file = \"handler.key\" }}\n"));
    desk.write("any_language.py", SCRIPT);
    let mut script = Command::new("python3")
        .args(["any_language.py", &format!("http://{}", node.address), &port.to_string()])
        .envs([("NODE_TOKEN", "secret"), ("HANDLER_SECRET", secret.as_str())])
        .current_dir(desk.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = desk::lines(script.stdout.take().unwrap());
    let _script = Script(script);
    let sent = next_of(&lines);
    let id = sent.strip_prefix("sent ").unwrap_or_else(|| panic!("{sent}"));
    assert_eq!(next_of(&lines), "order.placed {\"order\": 7}");
    until("it is done", || desk.outbox("done") == 1);
    let story = &desk.json(&["show", id, "--show-payload"])[0];
    assert_eq!(story["response"], "{\"reserved\": true}");
    let unsigned = Asked { address: format!("127.0.0.1:{port}") }.post("/", &Value::Null);
    assert_eq!(unsigned.status, 401, "{unsigned:?}");
}

/// Runs the code it reads, and prints its SQLite version.
const BY_SQLITE3: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
db.executescript(sys.stdin.read())
print(sqlite3.sqlite_version)
";
const BY_APSW: &str = "
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.setbusytimeout(5000)
for _ in db.cursor().execute(sys.stdin.read()): pass
print(apsw.sqlitelibversion())
";

/// Runs statements in a Python; returns its output or its error.
fn typed(desk: &Desk, python: &str, program: &str, sql: &str) -> Result<String, String> {
    let mut child = Command::new(python)
        .args(["-c", program, "postroom.db"])
        .current_dir(desk.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = |bytes| String::from_utf8(bytes).unwrap();
    if ended.status.success() { Ok(said(ended.stdout)) } else { Err(said(ended.stderr)) }
}

/// The guide's SQL for SQLite with another version of the library: a node handles the message.
fn plain_sql_enqueues(python: &str, program: &str) {
    let desk = Desk::new();
    let up = desk.start(&["up", "--exec", "cat"]);
    up.wait_for("Try it in another terminal");
    let guide = GUIDE.split("\n## ").find(|section| section.starts_with("SQLite")).unwrap();
    let examples: Vec<_> = guide.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let orders = "CREATE TABLE orders (id INTEGER);";
    let version = typed(&desk, python, program, &format!("{orders}\n{}", examples[0])).unwrap();
    println!("SQLite {}", version.trim());
    typed(&desk, python, program, "INSERT INTO outbox_messages (topic, payload) VALUES ('hello', '{}')").unwrap();
    until("it is handled", || desk.outbox("done") == 2);
    typed(&desk, python, program, examples[1]).unwrap();
    let found = &desk.json(&["show", "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01"])[0];
    assert_eq!((&found["topic"], &found["destination"]), (&"invoice.due".into(), &"billing".into()), "{found}");
    let wrong = "INSERT INTO outbox_messages (topic, payload, headers) VALUES ('a', '{}', 'notjson')";
    let said = typed(&desk, python, program, wrong).unwrap_err();
    assert!(said.contains("headers must be a JSON object of texts"), "{said}");
}

/// Runs a program on a terminal, presses q once it has drawn, and exits with its status.
const ON_TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
drawn = b''
while b'outbox' not in drawn:
    drawn += os.read(terminal, 4096)
os.write(terminal, b'q')
try:
    while os.read(terminal, 4096): pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

fn q_leaves_top() {
    let desk = Desk::new();
    desk.ok(&["send", "order.placed"]);
    let program = env!("CARGO_BIN_EXE_postroom");
    let mut python = Command::new("python3");
    let ran =
        python.args(["-c", ON_TERMINAL, program, "top", "--interval", "100ms"]).current_dir(desk.path("")).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
}
