//! `postroom explain`: one constructed case for each cause.

use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Handlers, Inbox, InboxKey, Worker};
use serde_json::Value;

use crate::desk::{Desk, until};

const HOUR: &str = "3600000000";

fn cause(desk: &Desk, id: &str) -> Value {
    let answer = desk.json(&["explain", id]);
    for name in ["is", "next", "advice"] {
        assert!(answer[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {answer}");
    }
    let told = desk.ok(&["explain", id]);
    assert!(
        told.contains(answer["cause"].as_str().unwrap()) && told.contains(answer["advice"].as_str().unwrap()),
        "{told}"
    );
    assert!(!told.contains("secret") && !answer.to_string().contains("secret"), "{told}");
    answer
}

/// Runs the worker until a condition holds.
fn work(desk: &Desk, exec: &str, is_so: impl Fn() -> bool) {
    let mut up = desk.start(&["up", "--exec", exec]);
    until("the worker has worked", is_so);
    up.terminate();
    up.end();
}

fn tried(desk: &Desk, id: &str) -> Value {
    desk.json(&["show", id])[0]["last_error"].clone()
}

/// A message that waits for its next attempt, an hour from now, after this error.
fn after(desk: &Desk, code: &str, error: &str, more: &[&str]) -> String {
    let id = desk.ok(&[&["send", "order.placed", "secret"], more].concat());
    desk.sql(&format!(
        "UPDATE outbox_messages_state SET attempts = 2, claim_no = 2, last_attempt_at = NOW, last_error = '{error}',
         next_attempt_at = NOW + {HOUR}, visible_at = NOW + {HOUR}
         WHERE seq = (SELECT max(seq) FROM outbox_messages)"
    ));
    desk.sql(&format!(
        "INSERT INTO outbox_messages_failures (seq, at, attempt, error, code)
         SELECT max(seq), NOW, 2, '{error}', '{code}' FROM outbox_messages"
    ));
    id
}

async fn store(desk: &Desk) -> SqliteStore {
    SqliteOptions::new(desk.path("postroom.db")).deploy_schema(true).open().await.unwrap()
}

#[test]
fn a_due_time_in_the_future() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret", "--due-in", "1h"]);
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "not-due");
    assert!(answer["next_at"].as_str() > answer["since"].as_str(), "{answer}");
}

#[test]
fn a_failed_attempt_with_its_error_and_the_next_one() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    work(&desk, "echo broken >&2; exit 1", || !tried(&desk, &id).is_null());
    desk.sql(&format!("UPDATE outbox_messages_state SET next_attempt_at = NOW + {HOUR}, visible_at = NOW + {HOUR}"));
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "backoff");
    assert!(answer["is"].as_str().unwrap().contains("exit status 1 ⏎ broken"), "{answer}");
    assert!(answer["next_at"].is_string(), "{answer}");
}

#[test]
fn a_lease_that_holds_and_one_that_is_over() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    let up = desk.start(&["up", "--exec", "exec sleep 600"]);
    until("it is held", || desk.outbox("leased") == 1);
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "leased");
    assert!(
        answer["next_at"].is_string() && answer["is"].as_str().unwrap().contains("is handling it, with a lease until"),
        "{answer}"
    );
    drop(up);
    desk.sql(
        "UPDATE outbox_messages_state SET locked_until = NOW - 300000000, visible_at = NOW - 300000000,
              last_attempt_at = NOW - 330000000",
    );
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "lease-over");
    assert!(answer["advice"].as_str().unwrap().contains("Start a worker"), "{answer}");
}

#[test]
fn done_with_and_without_an_answer() {
    let desk = Desk::new();
    let (with, without) = (desk.ok(&["send", "with", "secret"]), desk.ok(&["send", "without"]));
    work(&desk, "[ $POSTROOM_TOPIC = without ] || cat", || desk.outbox("done") == 2);
    let answer = cause(&desk, &with);
    assert_eq!(answer["cause"], "done");
    let is = answer["is"].as_str().unwrap();
    assert!(is.contains("its answer is stored") && is.contains("by worker"), "{answer}");
    assert!(cause(&desk, &without)["is"].as_str().unwrap().contains("no answer is stored"));
}

#[test]
fn dead_and_how_to_revive_it() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    work(&desk, "echo broken >&2; exit 65", || desk.outbox("dead") == 1);
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "dead");
    assert!(answer["is"].as_str().unwrap().contains("1 failed attempt: exit status 65 ⏎ broken"), "{answer}");
    assert!(answer["advice"].as_str().unwrap().contains(&format!("postroom revive {id}")), "{answer}");
    desk.sql("UPDATE outbox_messages_state SET crashes = 4, attempts = 0");
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "dead-after-crashes");
    assert!(answer["is"].as_str().unwrap().contains("4 workers in a row"), "{answer}");
}

#[test]
fn expired_and_not_yet_marked_so() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret", "--expires-in", "1ms"]);
    assert_eq!(cause(&desk, &id)["cause"], "past-its-time");
    work(&desk, "true", || desk.outbox("expired") == 1);
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "expired");
    assert!(answer["advice"].as_str().unwrap().contains("--ttl"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_handler_for_its_topic() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::<Sqlite>::outbox(store(&desk).await, Handlers::new()).run(async { drop(stopped.await) });
    let mut working = tokio::task::JoinSet::new();
    working.spawn(worker);
    tokio::task::block_in_place(|| until("it was tried", || !tried(&desk, &id).is_null()));
    stop.send(()).unwrap();
    working.join_next().await.unwrap().unwrap().unwrap();
    desk.sql(&format!("UPDATE outbox_messages_state SET next_attempt_at = NOW + {HOUR}, visible_at = NOW + {HOUR}"));
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "no-handler");
    assert!(answer["advice"].as_str().unwrap().contains("handles order.placed"), "{answer}");
}

#[test]
fn no_way_to_its_destination() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret", "--to", "billing"]);
    let mut up = desk.start(&["up"]);
    until("it was tried", || !tried(&desk, &id).is_null());
    up.terminate();
    up.end();
    desk.sql(&format!("UPDATE outbox_messages_state SET next_attempt_at = NOW + {HOUR}, visible_at = NOW + {HOUR}"));
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "unknown-destination");
    assert!(answer["advice"].as_str().unwrap().contains("Add billing to the services"), "{answer}");
}

#[test]
fn a_destination_that_fails() {
    let desk = Desk::new();
    let to = ["--to", "billing"];
    for (code, error, expected) in [
        ("unreachable", "tcp connect error: Connection refused", "destination-unreachable"),
        ("not_allowed", "the destination answered 401", "destination-refuses"),
        ("handler_failed", "the destination answered 500: broken", "backoff"),
        ("busy", "the destination answered 429", "destination-busy"),
        ("database_unavailable", "the database was away: the lease ran out", "database-outage"),
        ("newer_version", "it has version 4; this program knows version 3", "newer-version"),
    ] {
        let answer = cause(&desk, &after(&desk, code, error, &to));
        assert_eq!(answer["cause"], expected, "{answer}");
        assert_eq!((&answer["error"], &answer["destination"]), (&error.into(), &"billing".into()));
    }
    let local = after(&desk, "handler_failed", "tcp connect error: Connection refused", &[]);
    assert_eq!(cause(&desk, &local)["cause"], "backoff", "a handler's own error");
}

#[test]
fn a_destination_that_is_left_alone() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret", "--to", "billing"]);
    desk.sql(
        "INSERT INTO outbox_messages_holds (kind, name, owner, since, tried_at, code, why)
         VALUES ('service', 'billing', x'00', NOW - 60000000, NOW + 30000000, 'unreachable', 'Connection refused')",
    );
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "destination-left-alone", "{answer}");
    let is = answer["is"].as_str().unwrap();
    assert!(is.contains("1 message waits for billing since ") && is.contains("Connection refused"), "{is}");
    let stats = desk.ok(&["stats"]);
    assert!(stats.contains("1 message waits for billing since "), "{stats}");
}

#[test]
fn a_line_with_and_without_workers() {
    let desk = Desk::new();
    desk.ok(&["send", "first", "--count", "3"]);
    let id = desk.ok(&["send", "order.placed", "secret"]);
    let answer = cause(&desk, &id);
    assert_eq!((&answer["cause"], &answer["ahead"]), (&"no-worker".into(), &3.into()));
    assert!(answer["is"].as_str().unwrap().contains("behind 3 others"), "{answer}");
    // One message was handled just now.
    desk.sql("UPDATE outbox_messages_state SET state = 2, visible_at = NULL, processed_at = NOW WHERE seq = 1");
    let answer = cause(&desk, &id);
    assert_eq!((&answer["cause"], &answer["ahead"]), (&"in-line".into(), &2.into()));
    desk.sql("UPDATE outbox_messages_state SET processed_at = NOW - 600000000 WHERE seq = 1");
    assert_eq!(cause(&desk, &id)["cause"], "no-worker");
    // Another one has been in progress for a long time.
    desk.sql(
        "UPDATE outbox_messages_state SET state = 1, visible_at = NOW + 30000000, locked_until = NOW + 30000000,
              last_attempt_at = NOW - 600000000 WHERE seq = 2",
    );
    assert_eq!(cause(&desk, &id)["cause"], "in-line");
}

#[test]
fn a_message_that_may_kill_its_worker() {
    let desk = Desk::new();
    desk.ok(&["send", "other"]);
    desk.sql("UPDATE outbox_messages_state SET state = 2, visible_at = NULL, processed_at = NOW");
    let id = after(&desk, "crashed", "the worker vanished: its lease ran out", &[]);
    desk.sql("UPDATE outbox_messages_state SET crashes = 2 WHERE state = 0");
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "crashed-worker");
    assert!(answer["next"].as_str().unwrap().contains("separately from its other work"), "{answer}");
    desk.sql("UPDATE outbox_messages_state SET next_attempt_at = NOW - 1, visible_at = NOW - 1 WHERE state = 0");
    assert_eq!(cause(&desk, &id)["cause"], "claimed-alone");
}

#[test]
fn a_row_that_cannot_be_read() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    desk.sql("UPDATE outbox_messages SET kind = 'Nonsense'");
    assert_eq!(cause(&desk, &id)["cause"], "unreadable");
}

#[test]
fn a_clock_that_was_ahead() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "secret"]);
    desk.sql(&format!("UPDATE outbox_messages_state SET created_at = NOW + {HOUR}, visible_at = NOW + {HOUR}"));
    // Both from one reading of the clock.
    desk.sql("UPDATE outbox_messages_state SET visible_at = created_at");
    let answer = cause(&desk, &id);
    assert_eq!(answer["cause"], "clock");
    assert!(answer["advice"].as_str().unwrap().contains("NTP"), "{answer}");
}

#[tokio::test]
async fn an_inbox_message_outside_the_line() {
    let desk = Desk::new();
    let store = store(&desk).await;
    let key = InboxKey::new("stripe", "evt_1").unwrap();
    let inbox = Inbox::new(store);
    inbox.already_processed(&key).await.unwrap();
    assert_eq!(cause(&desk, "stripe/evt_1")["cause"], "only-seen");
    inbox.mark_processing(&key).await.unwrap();
    assert_eq!(cause(&desk, "evt_1")["cause"], "handled-elsewhere");
}

#[test]
fn an_unknown_id_and_missing_tables_have_their_exit_codes() {
    let desk = Desk::new();
    desk.ok(&["send", "a"]);
    for args in [&["explain", "nonsense"][..], &["explain", "nonsense", "--json"]] {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.stderr.contains("try:"), "{ran:?}");
    }
    let told: Value = serde_json::from_str(&desk.run(&["explain", "nonsense", "--json"]).stdout).unwrap();
    assert_eq!(told["cause"], "unknown-id");
    rusqlite::Connection::open(desk.path("shop.db")).unwrap().execute("CREATE TABLE orders (id)", []).unwrap();
    let ran = desk.run(&["explain", "nonsense", "--json", "--db", "shop.db"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains(r#""cause":"schema""#) && ran.stderr.contains("postroom migrate"), "{ran:?}");
    desk.sql("UPDATE postroom_schema SET version = 0");
    let ran = desk.run(&["explain", "nonsense"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("version 0"), "{ran:?}");
}

#[test]
fn a_topic_that_services_fetch_needs_no_worker() {
    let desk = Desk::new();
    desk.write("postroom.toml", "[handlers.\"order.placed\"]\npull = true\n");
    let id = desk.ok(&["send", "order.placed"]);
    desk.sql("UPDATE outbox_messages_state SET visible_at = NOW - 60000000");
    let told = cause(&desk, &id);
    assert_eq!(told["cause"], "not-fetched", "{told}");
    assert!(told["advice"].as_str().unwrap().contains("POST /v1/outbox/claim"), "{told}");
}
