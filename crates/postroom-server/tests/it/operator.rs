//! The commands for operators.

use crate::desk::{Desk, until};

/// A desk with one dead, one expired and one done message, and their ids.
fn desk_with_failures() -> (Desk, [String; 3]) {
    let desk = Desk::new();
    let dead = desk.ok(&["send", "order.dead", "secret"]);
    let expired = desk.ok(&["send", "order.expired", "--expires-in", "1ms"]);
    let done = desk.ok(&["send", "order.done"]);
    let mut up = desk.start(&["up", "--exec", "[ $POSTROOM_TOPIC = order.done ] || { echo broken >&2; exit 65; }"]);
    until("all are settled", || desk.outbox("dead") + desk.outbox("expired") + desk.outbox("done") == 3);
    up.terminate();
    up.end();
    (desk, [dead, expired, done])
}

#[test]
fn failed_lists_the_dead_and_the_expired() {
    let (desk, [dead, expired, _]) = desk_with_failures();
    let rows = desk.json(&["failed"]);
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!((&rows[0]["id"], &rows[0]["state"]), (&dead.as_str().into(), &"dead".into()));
    assert_eq!((&rows[0]["error"], &rows[0]["attempts"]), (&"exit status 65\nbroken".into(), &1.into()));
    assert_eq!((&rows[1]["id"], &rows[1]["state"]), (&expired.as_str().into(), &"expired".into()));
    let told = desk.ok(&["failed"]);
    assert!(told.contains("outbox order.dead, 1: exit status 65 ⏎ broken"), "{told}");
    assert!(told.contains(&dead) && told.contains("1 failed attempt") && !told.contains("secret"), "{told}");
    assert_eq!(desk.json(&["failed", "--topic", "order.expired"]).as_array().unwrap().len(), 1);
    assert_eq!(desk.json(&["failed", "--limit", "1"]).as_array().unwrap().len(), 1);
    assert_eq!(desk.json(&["failed", "--queue", "inbox"]), serde_json::json!([]));
}

#[test]
fn a_retried_message_is_handled_again() {
    let (desk, [dead, expired, done]) = desk_with_failures();
    assert_eq!(desk.json(&["retry", &dead])["retried"], 1);
    let story = &desk.json(&["show", &dead])[0];
    assert_eq!((&story["state"], &story["attempts"]), (&"ready".into(), &0.into()));
    assert_eq!(story["failures"].as_array().unwrap().len(), 1, "its past is kept: {story}");

    let too_late = desk.run(&["retry", &expired]);
    assert_eq!(too_late.code, Some(1));
    assert!(too_late.stderr.contains("--ttl"), "{too_late:?}");
    let is_done = desk.run(&["retry", &done]);
    assert_eq!(is_done.code, Some(1));
    assert!(is_done.stderr.contains("is done"), "{is_done:?}");

    assert_eq!(desk.json(&["retry", &expired, "--ttl", "1h"])["retried"], 1);
    let up = desk.start(&["up"]);
    let ids = [up.next_json()["id"].clone(), up.next_json()["id"].clone()];
    assert!(ids.contains(&dead.into()) && ids.contains(&expired.into()), "{ids:?}");
}

#[test]
fn retry_all_says_what_it_leaves() {
    let (desk, _) = desk_with_failures();
    let retried = desk.json(&["retry", "--all"]);
    assert_eq!((&retried["retried"], &retried["still_expired"]), (&1.into(), &1.into()));
    assert_eq!(desk.json(&["retry", "--all", "--ttl", "1h", "--topic", "other"])["retried"], 0);
    assert_eq!(desk.json(&["retry", "--all", "--ttl", "1h"])["retried"], 1);
    assert_eq!(desk.outbox("ready"), 2);
}

#[test]
fn the_story_names_no_secrets_unless_asked() {
    let (desk, [dead, ..]) = desk_with_failures();
    let told = desk.ok(&["show", &dead]);
    assert!(told.contains("dead") && told.contains("exit status 65 ⏎ broken") && told.contains("6 bytes"), "{told}");
    assert!(!told.contains("secret") && !desk.json(&["show", &dead]).to_string().contains("secret"));
    assert!(desk.ok(&["show", &dead, "--show-payload"]).contains("secret"));
}

#[test]
fn an_unknown_id_has_an_exit_code_of_its_own() {
    let (desk, _) = desk_with_failures();
    for id in ["0198c1d4-7a2b-7c3d-8e4f-5a6b7c8d9e0f", "nonsense", "stripe/evt_1"] {
        for command in ["show", "retry"] {
            let ran = desk.run(&[command, id]);
            assert_eq!(ran.code, Some(3), "{command} {id}: {ran:?}");
            assert!(ran.stdout.is_empty() && ran.stderr.contains("try:"), "{ran:?}");
        }
    }
}

#[test]
fn purge_deletes_what_is_done_and_nothing_else() {
    let (desk, _) = desk_with_failures();
    assert_eq!(desk.json(&["purge", "--older-than", "1d"])["purged"], 0);
    assert_eq!(desk.json(&["purge", "--older-than", "0s"])["purged"], 1);
    assert_eq!(desk.outbox("total"), 2);
}

#[test]
fn what_the_inbox_must_know_again_is_deleted_only_on_purpose() {
    let (desk, _) = desk_with_failures();
    let ran = desk.run(&["purge", "--queue", "inbox", "--older-than", "0s"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("it would be handled again"), "{ran:?}");
    assert!(ran.stderr.contains("`--older-than 30d`"), "{ran:?}");
    assert_eq!(desk.json(&["purge", "--queue", "inbox", "--older-than", "0s", "--force"])["purged"], 0);
    assert_eq!(desk.json(&["purge", "--queue", "inbox", "--older-than", "30d"])["purged"], 0);
}

#[test]
fn what_was_done_by_hand_is_told_with_who_and_why() {
    let (desk, [dead, ..]) = desk_with_failures();
    assert_eq!(desk.json(&["audit"]), serde_json::json!([]));
    desk.ok(&["retry", &dead, "--by", "ada", "--why", "billing is back"]);
    desk.ok(&["dismiss", "--all", "--by", "bob", "--why", "obsolete"]);
    desk.ok(&["purge", "--older-than", "0s", "--by", "bob"]);
    let told = desk.json(&["audit"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let acts: Vec<_> =
        told.as_array().unwrap().iter().map(|entry| text(&entry["who"]) + " " + &text(&entry["act"])).collect();
    assert_eq!(acts, ["bob purge", "bob dismiss", "ada revive"]);
    assert_eq!((&told[2]["messages"], &told[2]["why"]), (&1.into(), &"billing is back".into()));
    assert_eq!(told[2]["chosen"], format!("message {dead}"));
    assert_eq!(desk.json(&["audit", "--limit", "1"]).as_array().unwrap().len(), 1);
    let line = desk.ok(&["audit"]).lines().last().unwrap().to_owned();
    let wanted = format!("ada  revive 1 message of the outbox (message {dead}): billing is back");
    assert!(line.ends_with(&wanted), "{line}");
}

#[test]
fn messages_are_cancelled_by_their_ids_or_by_their_lane() {
    let desk = Desk::new();
    let [first, second] = [0, 1].map(|_| desk.ok(&["send", "order.placed"]));
    let cancelled = desk.json(&["cancel", &first, &second, "--by", "ada", "--why", "ordered twice"]);
    assert_eq!((&cancelled["cancelled"], &cancelled["asked_to_stop"]), (&2.into(), &0.into()));
    let story = &desk.json(&["show", &first])[0];
    assert_eq!((&story["dismissed_by"], &story["dismissed_why"]), (&"ada".into(), &"cancelled: ordered twice".into()));
    let too_late = desk.run(&["cancel", &first]);
    assert_eq!(too_late.code, Some(1));
    assert!(too_late.stderr.contains("is dismissed"), "{too_late:?}");
    assert_eq!(desk.run(&["cancel", "nonsense"]).code, Some(3));
    assert_eq!(desk.run(&["cancel"]).code, Some(2));

    for lane in ["order-7", "order-7", "order-8"] {
        desk.ok(&["send", "order.placed", "--lane", lane]);
    }
    let unasked = desk.run(&["cancel", "--lane", "order-7"]);
    assert_eq!(unasked.code, Some(1));
    assert!(unasked.stderr.contains("--yes"), "nobody is there to confirm it: {unasked:?}");
    assert_eq!(desk.ok(&["cancel", "--lane", "order-7", "--yes"]), "2 messages cancelled");
    assert_eq!(desk.outbox("ready"), 1);
    let trail = desk.json(&["audit"]);
    let told: Vec<_> =
        trail.as_array().unwrap().iter().map(|it| (it["act"].as_str(), it["messages"].as_u64())).collect();
    assert_eq!(told, [(Some("cancel"), Some(2)), (Some("cancel"), Some(2))]);
}

#[test]
fn a_backup_is_a_whole_database() {
    let (desk, _) = desk_with_failures();
    let copied = desk.json(&["backup", "copy.db"]);
    assert_eq!(copied["path"].as_str().map(std::path::PathBuf::from), Some(desk.path("copy.db")));
    assert_eq!(desk.json(&["stats", "--db", "copy.db"]), desk.json(&["stats"]));
    let again = desk.run(&["backup", "copy.db"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("never overwrites"), "{again:?}");
    assert_eq!(desk.run(&["backup", "nowhere/copy.db"]).code, Some(1));
}

#[test]
fn a_dismissed_message_is_kept_with_who_and_why() {
    let (desk, [dead, expired, done]) = desk_with_failures();
    let dismissed = |args: &[&str]| desk.json(&[&["dismiss"], args].concat())["dismissed"].as_u64().unwrap();
    assert_eq!(dismissed(&["--all", "--dry-run"]), 2);
    assert_eq!(desk.outbox("dismissed"), 0, "counting changed something");
    assert_eq!(desk.run(&["dismiss", "--all"]).code, Some(2), "a reason is needed");
    let is_done = desk.run(&["dismiss", &done, "--why", "obsolete", "--by", "ada"]);
    assert_eq!(is_done.code, Some(1));
    assert!(is_done.stderr.contains("is done"), "{is_done:?}");
    assert_eq!(dismissed(&[&dead, "--why", "a test order", "--by", "ada"]), 1);
    assert_eq!(dismissed(&["--topic", "order.expired", "--why", "too late", "--by", "bob"]), 1);
    assert_eq!((desk.outbox("dead"), desk.outbox("expired"), desk.outbox("dismissed")), (0, 0, 2));

    let story = &desk.json(&["show", &dead])[0];
    assert_eq!((&story["state"], &story["dismissed_by"]), (&"dismissed".into(), &"ada".into()));
    assert!(desk.ok(&["show", &dead]).contains("a test order"));
    assert!(desk.ok(&["explain", &expired]).contains("by bob: too late"));
    assert_eq!(desk.json(&["failed"]), serde_json::json!([]));
    let listed = desk.json(&["failed", "--dismissed"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["dismissed_why"]), (2, &"a test order".into()));

    let retried = desk.run(&["retry", &dead]);
    assert!(retried.code == Some(1) && retried.stderr.contains("postroom revive"), "{retried:?}");
    assert_eq!(desk.json(&["revive", "--all"])["revived"], 0, "dismissed messages were not meant");
    assert_eq!(desk.json(&["revive", &dead])["revived"], 1);
    assert_eq!(desk.json(&["revive", "--all", "--dismissed", "--ttl", "1h"])["revived"], 1);
    assert_eq!((desk.outbox("ready"), desk.outbox("dismissed")), (2, 0));
}

#[test]
fn what_is_shown_of_an_expired_message_can_be_done() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "--to", "billing"]);
    desk.sql("UPDATE outbox_messages_state SET state = 4, visible_at = NULL, processed_at = NOW");
    let shown = desk.ok(&["show", &id]);
    assert!(shown.contains(&format!("`postroom revive {id} --ttl 1h` requeues it")), "{shown}");
    desk.ok(&["revive", &id, "--ttl", "1h"]);
    assert_eq!(desk.outbox("ready"), 1);
}

#[test]
fn what_spent_no_attempt_is_not_shown_as_one() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed"]);
    desk.sql(
        "INSERT INTO outbox_messages_failures (seq, at, attempt, error, code) VALUES
         (1, NOW, 0, 'no handler for the topic', 'no_handler'), (1, NOW, 1, 'exit status 1', 'handler_failed')",
    );
    let shown = desk.ok(&["show", &id]);
    assert!(shown.contains("not counted  no_handler") && shown.contains("attempt 1  handler_failed"), "{shown}");
    assert!(!shown.contains("attempt 0"), "{shown}");
}

/// What another program wrote must not steer the terminal of whoever reads it.
#[test]
fn no_foreign_text_reaches_the_terminal_as_it_is() {
    let (desk, [dead, ..]) = desk_with_failures();
    let sign = "char(27) || '[2J' || char(8238)";
    desk.sql(&format!(
        "UPDATE outbox_messages SET topic = 'evil' || {sign}, correlation_id = 'evil' || {sign}
         WHERE seq IN (SELECT seq FROM outbox_messages_state WHERE state = 3);
         UPDATE outbox_messages_state SET last_error = 'evil' || {sign} WHERE state = 3;
         UPDATE outbox_messages_failures SET error = 'evil' || {sign};
         INSERT INTO inbox_messages (source, message_id, topic, payload, created_at, last_seen_at) \
         VALUES ('orders', 'evil' || char(8238), 'evil' || {sign}, '{{}}', NOW, NOW);
         UPDATE inbox_messages_state SET state = 3, processed_at = NOW;
         INSERT INTO outbox_messages_holds (kind, name, owner, since, tried_at, why) \
         VALUES ('topic', 'evil' || {sign}, randomblob(16), NOW, NOW, 'evil' || {sign});"
    ));
    let foreign = "orders/evil\u{202e}";
    for args in
        [&["show", &dead][..], &["show", foreign], &["failed"], &["explain", &dead], &["explain", foreign], &["stats"]]
    {
        let told = desk.ok(args);
        assert!(told.contains("evil"), "{args:?}: {told:?}");
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{args:?}: {told:?}");
    }
}
