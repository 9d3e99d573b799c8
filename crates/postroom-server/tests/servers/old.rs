//! A database of an older version: checked, printed, and carried over.

use postroom::clock::Clock;
use postroom_testbed::{Age, Old, OldKind};

use crate::database::{Database, Server};
use crate::desk::{Desk, until};
use crate::{Test, stands};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("an_old_database_is_carried_over_and_its_messages_handled", is_carried_over_and_its_messages_handled),
    ("an_old_database_is_carried_over_by_the_printed_sql", is_carried_over_by_the_printed_sql),
];

/// There a step is no transaction: the cases of the library break it off.
pub(crate) const ON_MARIADB: &[(&str, Test)] = &[
    ("an_old_database_is_carried_over_by_several_at_once", is_carried_over_by_several_at_once),
    ("an_old_database_is_carried_over_by_the_printed_sql", is_carried_over_by_the_printed_sql),
];

/// Where a test can make the program crash: a step has run, and is not committed.
const CRASH: [(&str, &str); 1] = [("POSTROOM_CRASH_AT", "in the middle of a migration")];

/// Fills the database as a program of the first version left it.
fn fill(database: &Database) {
    let (kind, schema, outbox, inbox) = match database.server {
        Server::Postgres => (OldKind::Postgres, Some("infra"), "outbox", "inbox"),
        Server::MariaDb => (OldKind::MySql, None, "infra_outbox", "infra_inbox"),
        Server::Mssql => (OldKind::Mssql, Some("infra"), "Outbox", "Inbox"),
    };
    let old = Old { kind, age: Age::First, schema, outbox, inbox };
    let now = Clock::Database.now();
    database.execute(&old.tables());
    database.execute(&old.rows(now.as_micros()));
}

fn is_old(desk: &Desk, url: &str) {
    let ran = desk.run(&["migrate", "--check", "--db", url]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("have version 1; `postroom migrate` carries them to 2 in 1 step"), "{ran:?}");
}

/// Broken off in the middle, then by several programs at once.
fn is_carried_over_and_its_messages_handled(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    fill(database);
    for _ in 0..2 {
        is_old(desk, url);
        let ran = desk.run(&["stats", "--db", url]);
        assert!(ran.code == Some(1) && ran.stderr.contains("needs at least version 2"), "{ran:?}");
        assert_eq!(desk.run_in(&CRASH, &["migrate", "--db", url]).code, None, "it was not killed");
    }
    is_carried_over_at_once(desk, url);
}

fn is_carried_over_by_several_at_once(desk: &Desk, database: &Database) {
    fill(database);
    is_old(desk, &database.url);
    is_carried_over_at_once(desk, &database.url);
}

fn is_carried_over_at_once(desk: &Desk, url: &str) {
    std::thread::scope(|scope| {
        let programs: Vec<_> = (0..3).map(|_| scope.spawn(|| desk.ok(&["migrate", "--db", url]))).collect();
        programs.into_iter().for_each(|program| drop(program.join().unwrap()));
    });
    desk.ok(&["migrate", "--check", "--db", url]);
    let mut up = desk.start(&["up", "--db", url, "--exec", r#"echo "$(cat)" >> handled"#, "--poll", "20ms"]);
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

fn is_carried_over_by_the_printed_sql(desk: &Desk, database: &Database) {
    fill(database);
    let url = database.url.as_str();
    let printed = desk.json(&["migrate", "--print", "--db", url]);
    is_old(desk, url);
    let (sql, text) = (printed["sql"].as_str().unwrap(), desk.ok(&["migrate", "--print", "--db", url]));
    if database.server == Server::Postgres {
        assert_eq!(text, format!("\\set ON_ERROR_STOP on\n{sql}"), "the client must not go on after an error");
    }
    if !database.run_by_client(&text) {
        database.execute(sql);
    }
    desk.ok(&["migrate", "--check", "--db", url]);
    assert_eq!((stands(desk, url, "ready"), stands(desk, url, "leased"), stands(desk, url, "done")), (4, 2, 2));
    assert_eq!(desk.ok(&["migrate", "--print", "--db", url]), "-- there is nothing to do: the tables have version 2");
}
