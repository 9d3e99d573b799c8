//! The worker that prints.

use postroom::sqlite::SqliteOptions;
use postroom::{Inbox, InboxKey, Incoming};

use crate::desk::{Desk, until};
use crate::web::{Asked, DIGEST};

#[test]
fn a_sent_message_is_printed_and_done_and_a_signal_drains() {
    let desk = Desk::new();
    let before = desk.ok(&["send", "order.placed", r#"{"order":7}"#]);
    assert_eq!(desk.outbox("ready"), 1);
    let mut up = desk.start(&["up"]);
    up.wait_for("Try it in another terminal");
    let line = up.next_json();
    assert_eq!(line["id"], before.as_str());
    assert_eq!(line["queue"], "outbox");
    assert_eq!(line["topic"], "order.placed");
    assert_eq!(line["attempt"], 1);
    assert_eq!(line["payload_bytes"], 11);
    assert!(line.get("payload").is_none(), "{line}");
    let meanwhile = desk.ok(&["send", "order.placed", "8"]);
    assert_eq!(up.next_json()["id"], meanwhile.as_str());
    until("both are done", || desk.outbox("done") == 2);
    up.terminate();
    assert_eq!(up.end().code(), Some(0));
}

#[test]
fn with_a_configuration_what_nobody_handles_waits_and_health_says_so() {
    let desk = Desk::new();
    let admin =
        format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]\n");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}"));
    let id = desk.ok(&["send", "order.placed", "{}"]);
    desk.ok(&["send", "order.placed", "{}", "--count", "2"]);
    let up = desk.start(&["up"]);
    up.wait_for("it has no [handlers], so messages for this node wait until there is one");
    let node = Asked::read(&up.wait_for("serves the HTTP API at"));
    let health = || node.get("/_rf/health", Some("secret")).text;
    until("health says so", || health().contains("3 messages wait for the topic order.placed"));
    // Now and then a worker holds the message to try it.
    until("explain says so", || {
        let told = desk.ok(&["explain", &id]);
        told.contains("no handler for the topic order.placed") && told.contains("[handlers.\"order.placed\"]")
    });
    assert_eq!((desk.outbox("done"), desk.unsettled()), (0, 3));
    drop(up);
    let up = desk.start(&["up", "--print"]);
    assert_eq!(up.next_json()["topic"], "order.placed");
    until("all are done", || desk.outbox("done") == 3);
}

#[test]
fn the_commands_it_names_work_as_printed() {
    let desk = Desk::new();
    let mut up = desk.start(&["up", "--db", "a file.db"]);
    up.wait_for("Try it in another terminal");
    until("the file is there", || desk.path("a file.db").exists());
    up.terminate();
    up.end();
    let said = up.rest_of_stderr();
    let commands: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert_eq!(commands.len(), 3, "{said}");
    for command in commands {
        let ran = std::process::Command::new("sh").args(["-c", command]).current_dir("/").output().unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
    }
    assert_eq!(desk.json(&["stats", "--db", "a file.db"])["outbox"]["total"], 1);
}

#[tokio::test]
async fn what_arrived_in_the_inbox_is_handled_too() {
    let desk = Desk::new();
    let store = SqliteOptions::new(desk.path("postroom.db")).deploy_schema(true).open().await.unwrap();
    let key = InboxKey::new("stripe", "evt_1").unwrap();
    Inbox::new(store).accept(Incoming::new(key, "payment.received", "100")).await.unwrap();
    let up = desk.start(&["up", "--show-payload"]);
    let line = up.next_json();
    assert_eq!(line["queue"], "inbox");
    assert_eq!(line["id"], "evt_1");
    assert_eq!(line["payload"], "100");
    until("it is done", || desk.json(&["stats"])["inbox"]["done"] == 1);
    for id in ["evt_1", "stripe/evt_1"] {
        let story = &desk.json(&["show", id])[0];
        assert_eq!((&story["source"], &story["state"]), (&"stripe".into(), &"done".into()));
    }
}

#[test]
fn without_a_reader_nothing_is_marked_done() {
    let desk = Desk::new();
    desk.ok(&["send", "a", "--count", "100"]);
    let mut up = desk.start_unread(&["up"]);
    assert_eq!(up.end().code(), Some(1));
    assert!(up.rest_of_stderr().contains("stdout was closed"));
    assert_eq!(desk.outbox("ready"), 100);
}

#[test]
fn a_destination_without_a_way_there_waits() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "a", "--to", "billing"]);
    let up = desk.start(&["up"]);
    up.wait_for("no route to the destination billing");
    until("it is back in line", || desk.outbox("ready") == 1);
    assert_eq!(desk.json(&["show", &id])[0]["last_error"], "no route to the destination billing");
}
