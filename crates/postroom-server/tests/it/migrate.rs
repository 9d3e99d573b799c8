//! A file of an older version: checked, printed, and carried over by people and by a node.

use postroom::clock::Clock;
use postroom_testbed::{Age, Old, OldKind};

use crate::desk::{Desk, until};

const OLD: Old<'static> =
    Old { kind: OldKind::Sqlite, age: Age::First, schema: None, outbox: "outbox_messages", inbox: "inbox_messages" };
/// Where a test can make the program crash: a step has run, and is not committed.
const CRASH: [(&str, &str); 1] = [("POSTROOM_CRASH_AT", "in the middle of a migration")];

/// A folder with a database as a program of the first version left it.
fn old_desk() -> Desk {
    let desk = Desk::new();
    let now = Clock::Database.now();
    desk.write("postroom.db", "");
    desk.sql("PRAGMA journal_mode = WAL");
    desk.sql(&OLD.tables());
    desk.sql(&OLD.rows(now.as_micros()));
    desk
}

fn number(desk: &Desk, sql: &str) -> i64 {
    let conn = rusqlite::Connection::open(desk.path("postroom.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_check_says_what_would_be_done() {
    let desk = old_desk();
    let before = std::fs::read(desk.path("postroom.db")).unwrap();
    let ran = desk.run(&["migrate", "--check"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let told = "error: the tables have version 1; `postroom migrate` carries them to 2 in 1 step";
    assert_eq!(ran.stderr.lines().next(), Some(told), "{ran:?}");
    desk.ok(&["migrate", "--check", "--to", "1"]);
    let doctor = desk.ok(&["doctor"]);
    assert!(doctor.contains("schema = version 1") && doctor.contains("do: run `postroom migrate`"), "{doctor}");
    assert!(std::fs::read(desk.path("postroom.db")).unwrap() == before, "the file was written");
    desk.ok(&["migrate"]);
    desk.ok(&["migrate", "--check"]);
}

#[test]
fn the_printed_sql_is_all_that_an_old_file_needs() {
    let desk = old_desk();
    let printed = desk.ok(&["migrate", "--print"]);
    let told = desk.json(&["migrate", "--print"]);
    assert_eq!((&told["from"], &told["to"]), (&1.into(), &2.into()));
    let sql = told["sql"].as_str().unwrap();
    assert_eq!(printed, format!(".bail on\n{sql}"), "the shell must not go on after an error");
    desk.sql(sql);
    desk.ok(&["migrate", "--check"]);
    assert_eq!(desk.ok(&["migrate", "--print"]), "-- there is nothing to do: the tables have version 2");
    let stats = &desk.json(&["stats"])["outbox"];
    assert_eq!((&stats["ready"], &stats["leased"], &stats["done"]), (&4.into(), &2.into(), &2.into()), "{stats}");
    // Once more by mistake: it stops, and what is there stays there.
    let conn = rusqlite::Connection::open(desk.path("postroom.db")).unwrap();
    conn.execute_batch(sql).unwrap_err();
    drop(conn);
    assert_eq!(desk.json(&["stats"])["outbox"]["total"], stats["total"]);
    desk.ok(&["migrate", "--check"]);
}

#[test]
fn a_version_is_one_of_those_that_can_be_reached() {
    let desk = old_desk();
    for to in ["0", "3"] {
        let ran = desk.run(&["migrate", "--to", to]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("1 to 2 is allowed"), "{ran:?}");
    }
    assert!(desk.ok(&["migrate", "--to", "1"]).ends_with("the tables are at version 1"));
    assert!(desk.ok(&["migrate", "--to", "2"]).ends_with("the tables are at version 2"));
    let ran = desk.run(&["migrate", "--to", "1"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("2 is allowed"), "{ran:?}");
    let ran = desk.run(&["migrate", "--to", "1", "--db", "new.db"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("version 2 only"), "{ran:?}");
    assert!(!desk.path("new.db").exists());
}

#[test]
fn a_migration_that_was_broken_off_is_taken_up_again() {
    let desk = old_desk();
    let messages = "SELECT count(*) FROM outbox_messages";
    for _ in 0..3 {
        assert_eq!(desk.run_in(&CRASH, &["migrate"]).code, None, "it was not killed");
        assert_eq!(number(&desk, "SELECT version FROM postroom_schema"), 1);
        assert_eq!(number(&desk, messages), 10);
    }
    desk.ok(&["migrate"]);
    assert_eq!(number(&desk, messages), 10);
    assert_eq!(number(&desk, "SELECT count(*) FROM outbox_messages_misplaced"), 0);
}

#[test]
fn several_programs_may_carry_it_over_at_once() {
    let desk = old_desk();
    std::thread::scope(|scope| {
        let programs: Vec<_> = (0..4).map(|_| scope.spawn(|| desk.ok(&["migrate"]))).collect();
        programs.into_iter().for_each(|program| drop(program.join().unwrap()));
    });
    assert_eq!(number(&desk, "SELECT count(*) FROM outbox_messages"), 10);
    desk.ok(&["migrate", "--check"]);
}

/// `up` carries a file over by itself, and handles what waited in it.
#[test]
fn a_node_handles_each_message_of_an_old_file_once() {
    let desk = old_desk();
    let mut up = desk.start(&["up", "--exec", r#"echo "$(cat)" >> handled"#]);
    let handled = || {
        let text = std::fs::read_to_string(desk.path("handled")).unwrap_or_default();
        // The worker of this one vanished: it is tried again a little later.
        let mut lines: Vec<_> = text.lines().filter(|line| *line != "five").map(str::to_owned).collect();
        lines.sort();
        lines
    };
    until("what was due is handled", || handled().len() >= 5);
    up.terminate();
    assert!(up.end().success(), "{}", up.rest_of_stderr());
    assert_eq!(handled(), ["eleven", "one", "one", "seven", "three"]);
}

#[test]
fn a_newer_file_is_refused_and_left_as_it_is() {
    let desk = Desk::new();
    desk.ok(&["migrate"]);
    desk.sql("UPDATE postroom_schema SET version = 9, needs = 7; PRAGMA wal_checkpoint(TRUNCATE)");
    let before = std::fs::read(desk.path("postroom.db")).unwrap();
    for args in
        [&["migrate"][..], &["migrate", "--check"], &["migrate", "--print"], &["up"], &["send", "a"], &["stats"]]
    {
        let ran = desk.run(args);
        assert!(ran.stderr.contains("needs a program that knows at least version 7"), "{args:?}: {ran:?}");
        assert_ne!(ran.code, Some(0), "{args:?}");
    }
    assert!(std::fs::read(desk.path("postroom.db")).unwrap() == before, "the file was written");
    // A newer program said that this one can go on.
    desk.sql("UPDATE postroom_schema SET needs = 2");
    desk.ok(&["send", "a"]);
    assert_eq!(desk.outbox("ready"), 1);
    assert!(desk.ok(&["doctor"]).contains("works with it"));
}
