//! Live views of the queues: `top` and `tail`.

use postroom::sqlite::SqliteOptions;
use postroom::{Inbox, InboxKey, Incoming};

use crate::desk::{Desk, until};

/// One message done, one dead with an error, and two ready, one of them to another service.
fn busy_desk() -> Desk {
    let desk = Desk::new();
    desk.ok(&["send", "order.done"]);
    desk.ok(&["send", "order.dead", "secret", "--max-attempts", "1"]);
    let mut up = desk.start(&["up", "--exec", "[ $POSTROOM_TOPIC = order.done ] || { echo broken >&2; exit 1; }"]);
    until("both are settled", || desk.outbox("done") == 1 && desk.outbox("dead") == 1);
    up.terminate();
    up.end();
    desk.ok(&["send", "order.placed", "secret"]);
    desk.ok(&["send", "invoice.due", "secret", "--to", "billing"]);
    desk
}

#[test]
fn one_snapshot_tells_all() {
    let desk = busy_desk();
    let seen = desk.json(&["top", "--once"]);
    let outbox = &seen["outbox"];
    assert_eq!((&outbox["ready"], &outbox["done"], &outbox["dead"]), (&2.into(), &1.into(), &1.into()), "{seen}");
    assert!(outbox["in_per_second"].as_f64() > Some(0.0) && outbox["out_per_second"].as_f64() > Some(0.0), "{seen}");
    assert_eq!(outbox["most_waiting"]["topics"].as_array().unwrap().len(), 2, "{seen}");
    assert_eq!(outbox["most_waiting"]["services"][0], serde_json::json!({ "name": "billing", "count": 1 }));
    assert_eq!(outbox["most_dead"]["topics"][0]["name"], "order.dead");
    assert_eq!(
        (&seen["errors"][0]["error"], &seen["errors"][0]["topic"]),
        (&"exit status 1 ⏎ broken".into(), &"order.dead".into())
    );
    assert!(outbox["oldest_waiting_ms"].is_u64(), "{seen}");
    let told = desk.ok(&["top", "--once"]);
    for text in ["in/s", "outbox ready", "billing 1", "outbox dead", "order.dead 1", "exit status 1 ⏎ broken"] {
        assert!(told.contains(text), "{text}: {told}");
    }
    assert!(!told.contains("secret") && !told.contains('\x1b') && !seen.to_string().contains("secret"), "{told}");
}

#[test]
fn without_a_terminal_there_is_a_snapshot_each_interval() {
    let desk = busy_desk();
    let mut top = desk.start(&["top", "--interval", "100ms", "--json"]);
    let (first, second) = (top.next_json(), top.next_json());
    assert!(first["at"].as_str() < second["at"].as_str(), "{first} {second}");
    top.terminate();
    assert_eq!(top.end().code(), Some(0));
}

#[test]
fn a_live_view_needs_a_database_and_a_sane_interval() {
    let desk = Desk::new();
    for command in ["top", "tail"] {
        let ran = desk.run(&[command]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("there is no database at") && ran.stderr.contains("try:"), "{ran:?}");
        let ran = desk.run(&[command, "--interval", "1ms"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("it must be at least"), "{ran:?}");
    }
    desk.ok(&["send", "a"]);
    let ran = desk.run(&["tail", "--queue", "inbox", "--destination", "billing"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("only the outbox has destinations"), "{ran:?}");
}

#[test]
fn what_happens_is_told_as_it_happens() {
    let desk = busy_desk();
    let mut tail = desk.start(&["tail", "--json", "--interval", "50ms"]);
    tail.wait_for("following");
    let id = desk.ok(&["send", "order.late", "secret", "--to", "billing", "--max-attempts", "1"]);
    let enqueued = tail.next_json();
    assert_eq!((&enqueued["state"], &enqueued["id"]), (&"enqueued".into(), &id.as_str().into()), "{enqueued}");
    assert_eq!((&enqueued["destination"], &enqueued["payload_bytes"]), (&"billing".into(), &6.into()), "{enqueued}");
    assert!(enqueued.get("payload").is_none(), "{enqueued}");
    let mut up = desk.start(&["up", "--exec", "[ $POSTROOM_TOPIC != order.late ] || { echo broken >&2; exit 1; }"]);
    let mut told: Vec<_> = (0..4).map(|_| tail.next_json()).collect();
    told.sort_by_key(|event| (event["topic"].to_string(), event["state"].to_string()));
    let short: Vec<_> = told.iter().map(|event| format!("{} {}", event["topic"], event["state"])).collect();
    let expected = ["invoice.due done", "order.late dead", "order.late failed", "order.placed done"];
    let expected: Vec<_> = expected.iter().map(|text| format!("\"{}\"", text.replace(' ', "\" \""))).collect();
    assert_eq!(short, expected);
    assert_eq!((&told[2]["error"], &told[2]["attempts"]), (&"exit status 1\nbroken".into(), &1.into()));
    up.terminate();
    up.end();
    tail.terminate();
    assert_eq!(tail.end().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_asked_for_is_told() {
    let desk = Desk::new();
    let store = SqliteOptions::new(desk.path("postroom.db")).deploy_schema(true).open().await.unwrap();
    let of_topic = desk.start(&["tail", "--topic", "b", "--show-payload", "--interval", "50ms"]);
    let of_source = desk.start(&["tail", "--source", "stripe", "--state", "enqueued", "--json", "--interval", "50ms"]);
    of_topic.wait_for("following");
    of_source.wait_for("following");
    desk.ok(&["send", "a", "first"]);
    let id = desk.ok(&["send", "b", "second"]);
    for source in ["github", "stripe"] {
        let key = InboxKey::new(source, "evt_1").unwrap();
        Inbox::new(store.clone()).accept(Incoming::new(key, "payment", "100")).await.unwrap();
    }
    let line = of_topic.next_line();
    assert!(line.contains("outbox  enqueued") && line.contains(&id) && line.ends_with("6 bytes  second"), "{line}");
    let event = of_source.next_json();
    assert_eq!((&event["source"], &event["id"], &event["queue"]), (&"stripe".into(), &"evt_1".into(), &"inbox".into()));
}
