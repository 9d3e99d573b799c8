//! A running node, and programs of others: those that are here.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/desk.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod desk;
#[path = "it/web.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod web;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use desk::{Desk, Running, next_of, until};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom::WebhookSecret;
use serde_json::Value;
use web::{Asked, DIGEST};

/// Where schemathesis is: `cargo xtask test` installs one.
const SCHEMATHESIS: &str = "POSTROOM_TEST_SCHEMATHESIS";
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
        Trial::ignorable_test("python::the_script_of_the_guide_sends_and_handles", || {
            if Command::new("python3").arg("--version").output().is_err() {
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

fn node(desk: &Desk, more: &str) -> (Running, Asked) {
    let admin = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"enqueue\", \"pull\", \"operate\"]\n"
    );
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}{more}"));
    let up = desk.start(&["up"]);
    let asked = Asked::read(&up.wait_for("answers services and operators at"));
    up.wait_for("Try it in another terminal");
    (up, asked)
}

/// Hundreds of requests, right and wrong ones, by the description: no answer is an error of ours, each is described.
fn no_answer_contradicts_the_description(program: &str) {
    let desk = Desk::new();
    let (_up, node) = node(&desk, "[handlers.\"*\"]\npull = true\n");
    let mut described: Value = serde_json::from_str(OPENAPI).unwrap();
    // Nobody waits for messages that do not come.
    let claim = &mut described["components"]["schemas"]["Claim"]["properties"];
    claim.as_object_mut().unwrap().remove("waitSeconds").unwrap();
    // A key that comes twice with different messages is refused, which a schema does not tell.
    described["paths"]["/v1/messages"]["post"].as_object_mut().unwrap().remove("parameters").unwrap();
    desk.write("openapi.json", &described.to_string());
    let url = format!("http://{}", node.address);
    // Which messages an act of the page is about has rules that a schema does not tell: of these the answers count.
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

/// The script while it runs; killed when the test is over.
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
