//! The real binary on the servers that the environment names. Each test has its own database.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "servers/database.rs"]
mod database;
#[path = "it/desk.rs"]
#[allow(dead_code, reason = "shared with the tests on files")]
mod desk;
#[path = "servers/old.rs"]
mod old;

use database::{Database, Server};
use desk::{Desk, until};
use libtest_mimic::{Arguments, Completion, Trial};

/// The start of a reason for which CI may skip a test too.
const OPTIONAL: &str = "optional: ";

type Test = fn(&Desk, &Database);

const TESTS: &[(&str, Test)] = &[
    ("a_message_goes_its_way", a_message_goes_its_way),
    ("nothing_is_created_unless_asked_for", nothing_is_created_unless_asked_for),
    ("the_printed_schema_is_all_it_needs", the_printed_schema_is_all_it_needs),
    ("the_schema_is_deployed_by_several_at_once", the_schema_is_deployed_by_several_at_once),
    ("an_arrived_message_is_found_by_its_id", an_arrived_message_is_found_by_its_id),
    ("a_backup_is_left_to_the_servers_tools", a_backup_is_left_to_the_servers_tools),
    ("the_doctor_looks_at_it", the_doctor_looks_at_it),
    ("the_schema_is_checked_without_a_change", the_schema_is_checked_without_a_change),
    ("what_is_measured_leaves_nothing_behind", what_is_measured_leaves_nothing_behind),
    ("a_message_is_explained", a_message_is_explained),
    ("a_snapshot_tells_of_both_queues", a_snapshot_tells_of_both_queues),
    ("what_happens_is_followed", what_happens_is_followed),
    ("what_failed_is_revived_and_what_was_done_redriven", what_failed_is_revived_and_what_was_done_redriven),
    ("a_node_finds_it_by_its_configuration", a_node_finds_it_by_its_configuration),
    ("a_user_without_rights_is_told_which_to_ask_for", a_user_without_rights_is_told_which_to_ask_for),
    ("a_server_out_of_reach_is_named_without_its_password", a_server_out_of_reach_is_named_without_its_password),
];

fn main() {
    let servers = [("postgres", Server::Postgres), ("mariadb", Server::MariaDb), ("mssql", Server::Mssql)];
    let trials = servers.iter().flat_map(|(name, server)| {
        let old = match server {
            Server::Postgres | Server::Mssql => old::TESTS,
            Server::MariaDb => old::ON_MARIADB,
        };
        let tests = TESTS.iter().chain(old);
        tests.map(move |(test, run)| Trial::ignorable_test(format!("{name}::{test}"), trial(*server, *run)))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn trial(server: Server, test: Test) -> impl FnOnce() -> Result<Completion, libtest_mimic::Failed> {
    move || {
        let Ok(url) = std::env::var(server.variable()) else {
            let variable = server.variable();
            return match server {
                // A test cannot install one, so CI runs without it.
                Server::Mssql => Ok(Completion::ignored_with(format!("{OPTIONAL}{variable} names no server"))),
                _ => Ok(Completion::ignored_with(format!("skipped: {variable} names no server"))),
            };
        };
        let database = Database::create(server, &url);
        let verdict = std::panic::catch_unwind(|| test(&Desk::new(), &database));
        database.remove();
        verdict.map(|()| Completion::Completed).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default().into()
        })
    }
}

fn stands(desk: &Desk, url: &str, state: &str) -> u64 {
    desk.json(&["stats", "--db", url])["outbox"][state].as_u64().unwrap()
}

fn a_message_goes_its_way(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    for _ in 0..2 {
        assert!(desk.ok(&["migrate", "--db", url]).contains("the tables are up to date"));
    }
    let id = desk.ok(&["send", "order.placed", "seven", "--db", url]);
    desk.ok(&["send", "bad.one", "--max-attempts", "1", "--database", url]);
    let exec = r#"test "$POSTROOM_TOPIC" = order.placed && cat"#;
    let mut up = desk.start(&["up", "--db", url, "--exec", exec, "--poll", "20ms"]);
    desk::until("one is done and one is dead", || stands(desk, url, "done") == 1 && stands(desk, url, "dead") == 1);
    up.terminate();
    assert!(up.end().success(), "{}", up.rest_of_stderr());
    let story = &desk.json(&["show", &id, "--show-payload", "--db", url])[0];
    assert_eq!((&story["state"], &story["response"]), (&"done".into(), &"seven".into()));
    assert_eq!(desk.json(&["failed", "--db", url])[0]["topic"], "bad.one");
    assert_eq!(desk.json(&["retry", "--all", "--db", url])["retried"], 1);
    assert_eq!(stands(desk, url, "ready"), 1);
    assert_eq!(desk.json(&["purge", "--older-than", "0", "--db", url])["purged"], 1);
    assert_eq!(stands(desk, url, "total"), 1);
}

fn nothing_is_created_unless_asked_for(desk: &Desk, database: &Database) {
    for args in [&["stats"][..], &["send", "a"], &["up"], &["failed"]] {
        let ran = desk.run(&[args, &["--db", &database.url]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("`postroom migrate`"), "{ran:?}");
    }
}

fn the_printed_schema_is_all_it_needs(desk: &Desk, database: &Database) {
    let sql = desk.ok(&["migrate", "--print", "--db", &database.url]);
    let kind = match database.server {
        Server::Postgres => "postgres",
        Server::MariaDb => "mysql",
        Server::Mssql => "mssql",
    };
    assert_eq!(sql, desk.ok(&["migrate", "--print", "--for", kind]));
    database.run_by_client(&sql);
    // The server does not understand the client commands of MySQL.
    let sql = sql.replace("DELIMITER //\n", "").replace("END //\nDELIMITER ;\n", "END;\n");
    assert_eq!(sql, desk.json(&["migrate", "--print", "--for", kind])["sql"]);
    for _ in 0..2 {
        database.execute(&sql);
    }
    desk.ok(&["send", "a", "--db", &database.url]);
    assert_eq!(stands(desk, &database.url, "ready"), 1);
}

/// Deployed by our programs, and by people who run the printed SQL.
fn the_schema_is_deployed_by_several_at_once(desk: &Desk, database: &Database) {
    let sql = desk.ok(&["migrate", "--print", "--db", &database.url]);
    std::thread::scope(|scope| {
        let programs = (0..3).map(|_| scope.spawn(|| desk.ok(&["migrate", "--db", &database.url])));
        let programs: Vec<_> = programs.collect();
        // On MySQL the program takes the lock, not the SQL.
        if !matches!(database.server, Server::MariaDb | Server::Postgres) {
            let people: Vec<_> = (0..3).map(|_| scope.spawn(|| database.execute(&sql))).collect();
            people.into_iter().for_each(|person| person.join().unwrap());
        }
        programs.into_iter().for_each(|program| drop(program.join().unwrap()));
    });
    desk.ok(&["send", "a", "--db", &database.url]);
    assert_eq!(stands(desk, &database.url, "ready"), 1);
}

fn an_arrived_message_is_found_by_its_id(desk: &Desk, database: &Database) {
    desk.ok(&["migrate", "--db", &database.url]);
    let columns = "(source, message_id, payload, topic, created_at, last_seen_at)";
    for source in ["stripe", "a/b"] {
        let values = format!("('{source}', 'evt/1', '', 't', 1, 1)");
        database.execute(&format!("INSERT INTO {} {columns} VALUES {values}", database.inbox()));
    }
    let found = |id: &str| desk.json(&["show", id, "--db", &database.url]).as_array().unwrap().len();
    assert_eq!([found("evt/1"), found("stripe/evt/1"), found("a/b/evt/1")], [2, 1, 1]);
    let ran = desk.run(&["show", "evt/2", "--db", &database.url]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

fn a_backup_is_left_to_the_servers_tools(desk: &Desk, database: &Database) {
    let ran = desk.run(&["backup", "copy", "--db", &database.url]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let tool = match database.server {
        Server::Postgres => "pg_dump",
        Server::MariaDb => "mariadb-dump",
        Server::Mssql => "BACKUP DATABASE",
    };
    assert!(ran.stderr.contains("this command backs up SQLite files only") && ran.stderr.contains(tool), "{ran:?}");
    assert!(!desk.path("copy").exists());
}

fn the_doctor_looks_at_it(desk: &Desk, database: &Database) {
    let examine = || {
        let ran = desk.run(&["doctor", "--json", "--db", &database.url]);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let expected = if report["worst"] == "danger" { Some(4) } else { Some(0) };
        assert_eq!(ran.code, expected, "{ran:?}");
        report
    };
    let schema = |report: &serde_json::Value| {
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["setting"] == "schema").unwrap()
    };
    assert_eq!(schema(&examine())["level"], "warning");
    assert_eq!(desk.run(&["doctor", "--strict", "--db", &database.url]).code, Some(4));
    desk.ok(&["migrate", "--db", &database.url]);
    assert_eq!(schema(&examine())["level"], "ok");
}

fn the_schema_is_checked_without_a_change(desk: &Desk, database: &Database) {
    for _ in 0..2 {
        let ran = desk.run(&["migrate", "--check", "--db", &database.url]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
    }
    let ran = desk.run(&["explain", "x", "--db", &database.url]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    desk.ok(&["migrate", "--db", &database.url]);
    desk.ok(&["migrate", "--check", "--db", &database.url]);
}

/// Runs until one message is done and one is dead.
fn work(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    desk.ok(&["migrate", "--db", url]);
    desk.ok(&["send", "good", "--to", "billing", "--db", url]);
    desk.ok(&["send", "bad", "secret", "--max-attempts", "1", "--db", url]);
    let exec = "[ $POSTROOM_TOPIC = good ] || { echo broken >&2; exit 1; }";
    let mut up = desk.start(&["up", "--db", url, "--exec", exec, "--poll", "20ms"]);
    desk::until("one is done and one is dead", || stands(desk, url, "done") == 1 && stands(desk, url, "dead") == 1);
    up.terminate();
    assert!(up.end().success(), "{}", up.rest_of_stderr());
}

fn what_is_measured_leaves_nothing_behind(desk: &Desk, database: &Database) {
    let before = database.objects();
    let told = desk.json(&["bench", "--duration", "400ms", "--callers", "4", "--db", &database.url]);
    assert!(told["measured"].as_array().unwrap().iter().all(|row| row["messages"].as_u64() > Some(0)), "{told}");
    assert_eq!(database.objects(), before, "with no tables of ours there");
    desk.ok(&["migrate", "--db", &database.url]);
    let (before, id) = (database.objects(), desk.ok(&["send", "mine", "--db", &database.url]));
    desk.json(&["bench", "--duration", "400ms", "--callers", "4", "--db", &database.url]);
    assert_eq!(database.objects(), before);
    assert_eq!(desk.json(&["show", &id, "--db", &database.url])[0]["state"], "ready");
    desk.ok(&["migrate", "--check", "--db", &database.url]);
}

fn a_message_is_explained(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    let explained = |id: &str| desk.json(&["explain", id, "--db", url]);
    desk.ok(&["migrate", "--db", url]);
    let later = desk.ok(&["send", "later", "--due-in", "1h", "--db", url]);
    let (first, second) = (desk.ok(&["send", "a", "--db", url]), desk.ok(&["send", "a", "--db", url]));
    assert_eq!(explained(&later)["cause"], "not-due");
    let answer = explained(&second);
    assert_eq!((&answer["cause"], &answer["ahead"]), (&"no-worker".into(), &1.into()), "{answer}");
    database.execute(&format!("UPDATE {} SET due_at = 9, kind = 'Nonsense' WHERE seq = 2", database.outbox()));
    assert_eq!(explained(&first)["cause"], "unreadable");
    database.execute(&format!("DELETE FROM {} WHERE seq = 2", database.outbox()));
    work(desk, database);
    let dead = desk.json(&["failed", "--db", url])[0]["id"].as_str().unwrap().to_owned();
    let answer = explained(&dead);
    assert_eq!(answer["cause"], "dead", "{answer}");
    assert!(answer["is"].as_str().unwrap().contains("exit status 1 ⏎ broken"), "{answer}");
    let third = desk.ok(&["send", "a", "--db", url]);
    assert_eq!(explained(&third)["cause"], "in-line", "something was done just now");
    assert_eq!(explained(&third)["clock_ahead_seconds"], 0);
    assert_eq!(desk.run(&["explain", "nonsense", "--db", url]).code, Some(3));
}

fn a_snapshot_tells_of_both_queues(desk: &Desk, database: &Database) {
    work(desk, database);
    desk.ok(&["send", "waits", "--to", "billing", "--db", &database.url]);
    let columns = "source, message_id, payload, topic, created_at, last_seen_at, visible_at, born";
    let insert = format!("INSERT INTO {} ({columns})", database.inbox());
    database.execute(&format!("{insert} VALUES ('stripe', 'e', '', 't', 1, 1, 1, 0)"));
    let seen = desk.json(&["top", "--once", "--db", &database.url]);
    assert_eq!(
        seen["outbox"]["most_waiting"]["topics"][0],
        serde_json::json!({ "name": "waits", "count": 1 }),
        "{seen}"
    );
    assert_eq!(seen["outbox"]["most_waiting"]["services"][0]["name"], "billing");
    assert_eq!(seen["outbox"]["most_dead"]["topics"][0]["name"], "bad");
    assert_eq!(seen["inbox"]["most_waiting"]["services"][0]["name"], "stripe");
    assert!(seen["outbox"]["in_per_second"].as_f64() > Some(0.0), "{seen}");
    assert!(seen["outbox"]["out_per_second"].as_f64() > Some(0.0), "{seen}");
    assert_eq!(seen["errors"][0]["error"], "exit status 1 ⏎ broken");
    assert!(desk.ok(&["top", "--once", "--db", &database.url]).contains("last failed attempts"));
}

fn what_happens_is_followed(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    desk.ok(&["migrate", "--db", url]);
    let mut tail = desk.start(&["tail", "--json", "--interval", "50ms", "--db", url]);
    tail.wait_for("following");
    work(desk, database);
    let mut told: Vec<_> = (0..5).map(|_| tail.next_json()).collect();
    told.sort_by_key(|event| (event["topic"].to_string(), event["state"].to_string()));
    let told: Vec<_> = told.iter().map(|event| format!("{} {}", event["topic"], event["state"])).collect();
    let expected =
        [r#""bad" "dead""#, r#""bad" "enqueued""#, r#""bad" "failed""#, r#""good" "done""#, r#""good" "enqueued""#];
    assert_eq!(told, expected);
    let columns = "(source, message_id, payload, topic, created_at, last_seen_at)";
    database.execute(&format!("INSERT INTO {} {columns} VALUES ('stripe', 'e/1', 'ö', 't', 1, 1)", database.inbox()));
    let event = tail.next_json();
    // SQL Server counts characters.
    let bytes = if matches!(database.server, Server::Mssql) { 1 } else { 2 };
    assert_eq!(
        (&event["source"], &event["id"], &event["payload_bytes"]),
        (&"stripe".into(), &"e/1".into(), &bytes.into())
    );
    tail.terminate();
    assert!(tail.end().success());
}

fn what_failed_is_revived_and_what_was_done_redriven(desk: &Desk, database: &Database) {
    let url = database.url.as_str();
    work(desk, database);
    let revive = |args: &[&str]| desk.json(&[&["revive", "--db", url], args].concat())["revived"].clone();
    assert_eq!(revive(&["--all", "--destination", "billing"]), 0);
    assert_eq!(revive(&["--topic", "bad", "--dry-run"]), 1);
    assert_eq!(revive(&["--topic", "bad"]), 1);
    let redrive = ["redrive", "--destination", "billing", "--since", "1h", "--db", url];
    assert_eq!(desk.json(&[&redrive[..], &["--dry-run"]].concat())["redriven"], 1);
    assert_eq!(desk.run(&redrive).code, Some(1), "nobody said yes");
    assert_eq!(desk.json(&[&redrive[..], &["--yes"]].concat())["redriven"], 1);
    assert_eq!(stands(desk, url, "ready"), 2);
    let ran = desk.run(&["restore", "copy", "--db", url]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("this command restores SQLite files only"), "{ran:?}");
}

fn a_node_finds_it_by_its_configuration(desk: &Desk, database: &Database) {
    desk.write("database.url", &format!("{}\n", database.url));
    let store = "[store]\nurl = { file = \"database.url\" }\ndeploy_schema = true\ndead_letter_topic = \"dead\"\n";
    desk.write("postroom.toml", &format!("{store}[receiver]\nlisten = []\n"));
    let up = desk.start(&["up", "--print"]);
    up.wait_for("Try it in another terminal");
    let id = desk.ok(&["send", "a"]);
    assert_eq!(up.next_json()["id"], id.as_str());
    until("it is done", || desk.outbox("done") == 1);
}

fn a_user_without_rights_is_told_which_to_ask_for(desk: &Desk, database: &Database) {
    // SQL Server names the missing right itself.
    let Some((url, gone)) = database.user_without_rights() else { return };
    desk.ok(&["migrate", "--db", &database.url]);
    let ran = desk.run(&["stats", "--db", &url]);
    database.execute(&gone);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON"), "{ran:?}");
}

fn a_server_out_of_reach_is_named_without_its_password(desk: &Desk, database: &Database) {
    let scheme = database.url.split_once(':').unwrap().0;
    let url = format!("{scheme}://app:hunter2@127.0.0.1:1/shop");
    for args in [&["doctor"][..], &["stats"], &["up"], &["migrate"], &["doctor", "-vv"]] {
        let ran = desk.run(&[args, &["--db", &url]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(&format!("{scheme}://app:***@127.0.0.1:1/shop")), "{ran:?}");
        assert!(!format!("{ran:?}").contains("hunter2"), "{ran:?}");
    }
}
