//! `revive`, `redrive` and `restore`.

use postroom::sqlite::SqliteOptions;
use postroom::{Inbox, InboxKey, Incoming};

use crate::desk::{Desk, until};

/// Two dead under `a`, one of them to billing; one dead under `b`; one expired; one done. And one dead in the inbox.
async fn desk_with_failures() -> (Desk, String) {
    let desk = Desk::new();
    let id = desk.ok(&["send", "a", "secret"]);
    desk.ok(&["send", "a", "--to", "billing"]);
    desk.ok(&["send", "b"]);
    desk.ok(&["send", "late", "--expires-in", "1ms"]);
    desk.ok(&["send", "done"]);
    let store = SqliteOptions::new(desk.path("postroom.db")).open().await.unwrap();
    let key = InboxKey::new("stripe", "evt_1").unwrap();
    let inbox = Inbox::new(store.clone());
    inbox.accept(Incoming::new(key.clone(), "payment", "100")).await.unwrap();
    inbox.mark_dead(&key, "broken").await.unwrap();
    store.close().await;
    let mut up = desk.start(&["up", "--exec", "[ $POSTROOM_TOPIC = done ] || exit 65"]);
    tokio::task::block_in_place(|| {
        until("all are settled", || desk.outbox("dead") + desk.outbox("expired") + desk.outbox("done") == 5);
    });
    up.terminate();
    up.end();
    (desk, id)
}

fn revived(desk: &Desk, args: &[&str]) -> (u64, u64) {
    let told = desk.json(&[&["revive"], args].concat());
    (told["revived"].as_u64().unwrap(), told["still_expired"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_revived_can_be_chosen_and_counted_before() {
    let (desk, id) = desk_with_failures().await;
    assert_eq!(revived(&desk, &["--all", "--dry-run"]), (4, 1));
    assert_eq!(revived(&desk, &["--all", "--dry-run", "--ttl", "1h"]), (5, 0));
    assert_eq!(revived(&desk, &[&id, "--dry-run"]), (1, 0));
    assert_eq!(desk.outbox("ready"), 0, "nothing was changed");
    assert!(desk.ok(&["revive", "--topic", "a", "--dry-run"]).contains("2 messages would be requeued"));
    assert_eq!(revived(&desk, &["--topic", "a", "--destination", "billing"]), (1, 0));
    assert_eq!(revived(&desk, &["--source", "stripe"]), (1, 0));
    assert_eq!(desk.json(&["show", "stripe/evt_1"])[0]["state"], "ready");
    assert_eq!(revived(&desk, &["--all", "--limit", "1"]), (1, 0));
    assert_eq!(desk.outbox("dead"), 1);
    assert_eq!(revived(&desk, &["--all", "--ttl", "1h"]), (2, 0));
    assert_eq!(desk.outbox("ready"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_revived_says_why() {
    let (desk, id) = desk_with_failures().await;
    let failed = desk.json(&["failed", "--topic", "late"]);
    let expired = failed[0]["id"].as_str().unwrap();
    let ran = desk.run(&["revive", expired]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("has expired") && ran.stderr.contains("--ttl"), "{ran:?}");
    assert_eq!(revived(&desk, &[expired, "--ttl", "1h"]), (1, 0));
    assert_eq!(revived(&desk, &[&id]), (1, 0));
    let ran = desk.run(&["revive", &id]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is ready") && ran.stderr.contains("postroom explain"), "{ran:?}");
    assert_eq!(desk.run(&["revive", "nonsense"]).code, Some(3));
    for (args, said) in [
        (&["revive"][..], "--all"),
        (&["revive", &id, "--topic", "a"], "cannot be used with"),
        (&["revive", "--source", "a", "--destination", "b"], "cannot be used with"),
        (&["revive", "--all", "--limit", "0"], "--limit"),
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{args:?}: {ran:?}");
    }
    let ran = desk.run(&["revive", "--source", "stripe", "--queue", "outbox"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

/// This many done messages to billing, and one to shipping.
fn desk_with_deliveries(count: &str) -> Desk {
    let desk = Desk::new();
    desk.ok(&["send", "a", "--to", "billing", "--count", count]);
    desk.ok(&["send", "a", "--to", "shipping"]);
    desk.ok(&["send", "here"]);
    desk.sql(
        "UPDATE outbox_messages_state
         SET state = 2, visible_at = NULL, claim_no = 1, processed_at = NOW, response = 'null'",
    );
    desk
}

#[test]
fn what_was_delivered_since_goes_out_again() {
    let desk = desk_with_deliveries("3");
    desk.sql("UPDATE outbox_messages_state SET processed_at = NOW - 7200000000 WHERE seq = 1");
    let redrive = ["redrive", "--destination", "billing", "--since", "1h"];
    let told = desk.json(&[&redrive[..], &["--dry-run"]].concat());
    assert_eq!((&told["redriven"], &told["dry_run"]), (&2.into(), &true.into()));
    assert_eq!(desk.outbox("done"), 5, "nothing was changed");
    let ran = desk.run(&redrive);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("there is no terminal to ask for confirmation") && ran.stderr.contains("--yes"),
        "{ran:?}"
    );
    let told = desk.ok(&[&redrive[..], &["--yes"]].concat());
    assert_eq!(told, "2 messages to billing will be sent again");
    assert_eq!((desk.outbox("ready"), desk.outbox("done")), (2, 3));
    let none = desk.run(&["redrive", "--destination", "nobody", "--since", "2026-01-01T00:00:00Z"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "0 messages to nobody will be sent again\n"), "{none:?}");
    assert!(none.stderr.contains("no message was delivered to nobody"), "{none:?}");
    for (since, said) in
        [("yesterday", "a time like"), ("2999-01-01T00:00:00Z", "future"), ("2026-13-01T00:00:00Z", "RFC 3339")]
    {
        let ran = desk.run(&["redrive", "--destination", "billing", "--since", since]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}

#[test]
fn many_go_out_again_page_by_page() {
    let desk = desk_with_deliveries("11000");
    let told = desk.json(&["redrive", "--destination", "billing", "--since", "1h", "--yes"]);
    assert_eq!(told["redriven"], 11_000);
    assert_eq!((desk.outbox("ready"), desk.outbox("done")), (11_000, 2));
}

#[test]
fn a_backup_takes_the_place_of_the_database() {
    let desk = Desk::new();
    let before = desk.ok(&["send", "before"]);
    desk.ok(&["backup", "copy.db"]);
    let after = desk.ok(&["send", "after"]);
    assert!(desk.ok(&["restore", "copy.db", "--dry-run"]).contains("can replace it"));
    assert_eq!(desk.outbox("ready"), 2, "nothing was changed");
    let ran = desk.run(&["restore", "copy.db"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("postroom redrive --destination THIS-SERVICE --since 20"), "{ran:?}");
    assert_eq!(desk.outbox("ready"), 1);
    desk.ok(&["show", &before]);
    assert_eq!(desk.run(&["show", &after]).code, Some(3));
    let told = ran.stdout.lines().find_map(|line| line.strip_prefix("the old file is kept as ")).unwrap();
    assert_eq!(desk.json(&["stats", "--db", told])["outbox"]["ready"], 2);
    assert!(desk.path("copy.db").exists(), "the backup stays");
    let names: Vec<_> = std::fs::read_dir(desk.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("restoring")), "{names:?}");
}

/// If the restore is killed half-way, the old file is opened without its log.
#[test]
fn the_old_file_is_whole_without_its_log() {
    let desk = Desk::new();
    desk.ok(&["send", "before"]);
    desk.ok(&["backup", "copy.db"]);
    let conn = rusqlite::Connection::open(desk.path("postroom.db")).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    conn.execute_batch("CREATE TABLE orders AS SELECT 7 AS id").unwrap();
    drop(conn);
    assert!(std::fs::metadata(desk.path("postroom.db-wal")).unwrap().len() > 0, "there is a log");
    let kept = desk.json(&["restore", "copy.db"])["kept"].as_str().unwrap().to_owned();
    let alone = desk.path("alone.db");
    std::fs::copy(kept, &alone).unwrap();
    let conn = rusqlite::Connection::open(alone).unwrap();
    assert_eq!(conn.query_row("SELECT id FROM orders", [], |row| row.get::<_, i64>(0)), Ok(7));
}

#[test]
fn a_damaged_database_is_replaced_with_its_log() {
    let desk = Desk::new();
    desk.ok(&["send", "before", "--count", "100"]);
    desk.ok(&["backup", "copy.db"]);
    std::fs::write(desk.path("postroom.db"), "not a database any more".repeat(1000)).unwrap();
    assert_eq!(desk.run(&["stats"]).code, Some(1));
    std::fs::write(desk.path("postroom.db-wal"), "an old log").unwrap();
    let kept = desk.json(&["restore", "copy.db"])["kept"].as_str().unwrap().to_owned();
    assert_eq!(desk.outbox("ready"), 100);
    assert_eq!(std::fs::read_to_string(format!("{kept}-wal")).unwrap(), "an old log");
    std::fs::remove_file(desk.path("postroom.db")).unwrap();
    assert!(desk.json(&["restore", "copy.db"])["kept"].is_null());
    assert_eq!(desk.outbox("ready"), 100);
}

#[test]
fn nothing_is_replaced_while_it_is_open_or_by_a_bad_copy() {
    let desk = Desk::new();
    desk.ok(&["send", "before", "--count", "500"]);
    desk.ok(&["backup", "copy.db"]);
    let refused = |args: &[&str], said: &str| {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(said) && ran.stderr.contains("try:"), "{args:?}: {ran:?}");
    };
    let mut up = desk.start(&["up"]);
    until("all are done", || desk.outbox("done") == 500);
    refused(&["restore", "copy.db"], "another program has");
    up.terminate();
    up.end();
    refused(&["restore", "nowhere.db"], "there is no backup at");
    refused(&["restore", "postroom.db"], "the backup is the database itself");
    let mut bytes = std::fs::read(desk.path("copy.db")).unwrap();
    bytes[8192..].fill(0xA5);
    std::fs::write(desk.path("bad.db"), bytes).unwrap();
    refused(&["restore", "bad.db"], "cannot be restored");
    std::fs::write(desk.path("diary"), "dear diary ".repeat(1000)).unwrap();
    refused(&["restore", "diary"], "cannot be restored");
    rusqlite::Connection::open(desk.path("shop.db")).unwrap().execute("CREATE TABLE orders (id)", []).unwrap();
    refused(&["restore", "shop.db"], "cannot be restored");
    std::fs::write(desk.path("copy.db-wal"), "x").unwrap();
    refused(&["restore", "copy.db"], "has a log");
    assert_eq!(desk.outbox("done"), 500, "nothing was changed");
}
