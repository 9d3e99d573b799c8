//! A service that fetches its messages from a running node.

use serde_json::{Value, json};

use crate::desk::{Desk, Running, until};
use crate::hook::{Hook, said};
use crate::web::{Asked, DIGEST};

fn configure(desk: &Desk, handlers: &str) {
    let may = "may = [\"enqueue\", \"pull\", \"operate\"]\n";
    let admin = format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\n{may}");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}{handlers}"));
}

fn node(desk: &Desk, handlers: &str) -> (Running, Asked) {
    configure(desk, handlers);
    let up = desk.start(&["up"]);
    let asked = Asked::read(&up.wait_for("serves the HTTP API at"));
    up.wait_for("Try it in another terminal");
    (up, asked)
}

fn leases(claimed: &Value) -> Vec<Value> {
    claimed["messages"].as_array().unwrap().iter().map(|message| json!({ "lease": message["lease"] })).collect()
}

#[test]
fn the_node_leaves_what_services_fetch_and_unknown_topics_wait() {
    let desk = Desk::new();
    let (mut up, node) = node(&desk, "[handlers.\"order.placed\"]\npull = true\n");
    let unknown = desk.ok(&["send", "order.paid", "{}"]);
    let id = desk.ok(&["send", "order.placed", r#"{"order": 7}"#]);
    up.wait_for("no handler for the topic order.paid");
    let claimed = node.post("/v1/outbox/claim", &json!({ "waitSeconds": 20 }));
    assert_eq!((claimed.status, &claimed.body["messages"][0]["messageId"]), (200, &json!(id)), "{claimed:?}");
    let acked = node.post("/v1/outbox/ack", &json!({ "items": leases(&claimed.body) }));
    assert_eq!(acked.status, 200, "{acked:?}");
    until("it is done", || desk.outbox("done") == 1);
    assert_eq!(desk.json(&["show", &unknown])[0]["attempts"], 0);
    assert!(node.post("/v1/inbox/claim", &json!({})).body["messages"].as_array().unwrap().is_empty());
    up.terminate();
    assert!(up.end().success(), "{}", up.rest_of_stderr());
}

#[test]
fn a_service_that_waits_is_woken_by_a_message_of_another_process() {
    let desk = Desk::new();
    let (_up, node) = node(&desk, "[handlers.\"*\"]\npull = true\n");
    let waiting = std::thread::spawn(move || node.post("/v1/outbox/claim", &json!({ "waitSeconds": 20 })));
    desk.ok(&["send", "order.placed", "teapot"]);
    let claimed = waiting.join().unwrap();
    assert_eq!(claimed.body["messages"][0]["payloadText"], "teapot", "{claimed:?}");
}

#[test]
fn what_is_posted_and_what_is_fetched_are_told_apart_before_anything_starts() {
    let desk = Desk::new();
    desk.write(
        "postroom.toml",
        "[handlers.a]\npull = true\nurl = \"http://127.0.0.1:1/\"\n[receiver]\nqueued = false\n",
    );
    let ran = desk.run(&["config", "check"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("`url` in [handlers.a] is only for messages that the node posts"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`pull` needs `queued = true` in [receiver]"), "{}", ran.stderr);
}

#[test]
fn a_topic_that_was_posted_is_not_fetched_before_a_restart_and_nothing_is_done_unhandled() {
    let (desk, hook) = (Desk::new(), Hook::new(|_, _| said("200 OK", "", "")));
    let posted = |topic: &str| format!("[handlers.\"{topic}\"]\nurl = \"{}\"\n", hook.url());
    let fetched = |topic: &str| format!("[handlers.\"{topic}\"]\npull = true\n");
    for (before, after) in [
        // Otherwise it would be printed and done.
        (posted("a"), fetched("a")),
        // Otherwise it would go to the handler of other topics.
        (posted("a") + &posted("*"), fetched("a") + &posted("*")),
        // Otherwise no handler would get it.
        (posted("a") + &fetched("*"), fetched("*")),
        (posted("*"), fetched("*")),
    ] {
        let (mut up, _) = node(&desk, &before);
        configure(&desk, &after);
        up.hang_up();
        let why = up.wait_for("SIGHUP: the configuration was not reloaded: messages of");
        assert!(why.contains("are now for services to fetch, but this node still claims them itself"), "{why}");
        let id = desk.ok(&["send", "a", "{}"]);
        assert_eq!(hook.next().headers["postroom-message-id"], id, "{before} {after}");
        until("it is done", || desk.json(&["show", &id])[0]["state"] == "done");
        up.terminate();
        assert!(up.end().success());
    }
}

#[test]
fn a_topic_that_was_fetched_is_fetched_until_a_restart_and_the_node_says_so() {
    let (desk, hook) = (Desk::new(), Hook::new(|_, _| said("200 OK", "", "")));
    let (up, node) = node(&desk, "[handlers.\"*\"]\npull = true\n");
    let posted = format!("[handlers.a]\nurl = \"{}\"\n", hook.url());
    configure(&desk, &format!("{posted}[handlers.\"*\"]\npull = true\n"));
    up.hang_up();
    up.wait_for("SIGHUP: restart the node to apply `pull` in [handlers]");
    let id = desk.ok(&["send", "a", "{}"]);
    let claimed = node.post("/v1/outbox/claim", &json!({ "waitSeconds": 20 }));
    assert_eq!(claimed.body["messages"][0]["messageId"], id, "{claimed:?}");
}
