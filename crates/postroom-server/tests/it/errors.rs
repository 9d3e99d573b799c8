//! Error messages, and what an error must not change.

use crate::desk::Desk;

const QUESTIONS: [&[&str]; 12] = [
    &["stats"],
    &["failed"],
    &["show", "x"],
    &["explain", "x"],
    &["retry", "x"],
    &["revive", "x"],
    &["redrive", "--destination", "x", "--since", "1h"],
    &["purge", "--older-than", "1d"],
    &["backup", "copy"],
    &["top", "--once"],
    &["tail"],
    &["migrate", "--check"],
];

#[test]
fn a_question_creates_no_file() {
    let desk = Desk::new();
    for args in QUESTIONS {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("there is no database at"), "{ran:?}");
        assert!(ran.stderr.contains("`postroom up` or `postroom send`"), "{ran:?}");
        assert!(ran.stdout.is_empty() && !desk.path("postroom.db").exists(), "{args:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_left_as_it_is() {
    let desk = Desk::new();
    let text = "dear diary, this is no database ".repeat(64);
    std::fs::write(desk.path("diary"), &text).unwrap();
    for args in QUESTIONS.into_iter().chain([&["up"][..], &["send", "a"], &["migrate"]]) {
        let ran = desk.run(&[args, &["--db", "diary"]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("it is not a SQLite database"), "{ran:?}");
        assert!(ran.stderr.contains("--db PATH"), "{ran:?}");
    }
    assert_eq!(std::fs::read_to_string(desk.path("diary")).unwrap(), text);
}

#[test]
fn a_folder_in_place_of_a_file_is_named() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("shop")).unwrap();
    for args in [&["up"][..], &["send", "a"], &["migrate"], &["stats"]] {
        let ran = desk.run(&[args, &["--db", "shop"]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("it is a folder: name a file in it"), "{ran:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_said_to_be() {
    let desk = Desk::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for section in ["[receiver]\nlisten = [\"http://127.0.0.1:PORT\"]\n", "[admin]\nlisten = \"127.0.0.1:PORT\"\n"] {
        desk.write("postroom.toml", &section.replace("PORT", &port.to_string()));
        let ran = desk.run(&["up"]);
        assert!(ran.stderr.contains("Address already in use"), "{ran:?}");
        assert!(ran.stderr.contains("try: use another port, or stop the program that listens on this one"), "{ran:?}");
    }
}

#[test]
fn a_day_is_a_time_too_and_a_wrong_one_is_told_what_is_allowed() {
    let desk = Desk::new();
    desk.ok(&["send", "a"]);
    let redrive = |since| desk.run(&["redrive", "--destination", "billing", "--since", since, "--yes"]);
    assert_eq!(redrive("2026-02-14").code, Some(0), "{:?}", redrive("2026-02-14"));
    for wrong in ["2026-02-31", "yesterday", "2026"] {
        let ran = redrive(wrong);
        assert!(ran.code != Some(0) && ran.stderr.contains("2026-02-14"), "{ran:?}");
        assert!(!ran.stderr.contains("like 2026s"), "{ran:?}");
    }
}

#[test]
fn a_missing_folder_is_named() {
    let desk = Desk::new();
    for args in [&["up"][..], &["send", "a"], &["migrate"]] {
        let ran = desk.run(&[args, &["--db", "nowhere/postroom.db"]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("the folder nowhere does not exist"), "{ran:?}");
    }
}

#[test]
fn a_database_without_the_tables_asks_for_them() {
    let desk = Desk::new();
    rusqlite::Connection::open(desk.path("shop.db")).unwrap().execute("CREATE TABLE orders (id)", []).unwrap();
    let ran = desk.run(&["stats", "--db", "shop.db"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("`postroom migrate`"), "{ran:?}");
}

#[test]
fn wrong_usage_is_told_apart_and_explained() {
    let desk = Desk::new();
    for (args, said) in [
        (&["send", "a", "--due-in", "10"][..], "write a whole number and ms, s, m, h or d"),
        (&["send", "a", "--due-in", "5 parsecs"], "is not a unit of time"),
        (&["send", "a", "--expires-in", "0s"], "longer than zero"),
        (&["send", "a", "--due-in", "1s", "--head-start", "1s"], "cannot be used with"),
        (&["send", "a", "--until-done"], "--unique-key"),
        (&["send", "a", "--unique-key", "a", "--until-done", "--unique-for", "1s"], "cannot be used with"),
        (&["send", "a", "--unique-key", "a", "--if-taken", "ignore"], "keep, replace, refuse"),
        (&["send", "a", "--id", "zzz"], "is not a UUID"),
        (&["send", "a", "--id", "00000000-0000-0000-0000-000000000000"], "must not be the nil UUID"),
        (&["send", "a", "--header", "tenant"], "write NAME=VALUE"),
        (&["send", "a", "--max-attempts", "0"], "--max-attempts"),
        (&["up", "--lease", "25h"], "at most 1d"),
        (&["up", "--batch", "0"], "1..=10000"),
        (&["up", "--timeout", "1s"], "--exec"),
        (&["retry"], "--all"),
        (&["retry", "x", "--topic", "a"], "cannot be used with"),
        (&["purge"], "--older-than"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(said) && ran.stderr.contains("--help"), "{args:?}: {ran:?}");
    }
    assert!(!desk.path("postroom.db").exists());
}

#[test]
fn what_a_message_may_not_be_is_refused() {
    let desk = Desk::new();
    let ran = desk.run(&["send", ""]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("topic must not be empty") && ran.stderr.contains("--help"), "{ran:?}");
}

#[test]
fn help_names_the_exit_codes() {
    assert!(Desk::new().ok(&["--help"]).contains("3 no message has this id"));
    assert!(Desk::new().ok(&["--help"]).contains("5 the tables are"));
}

#[test]
fn another_kind_of_database_is_refused_without_an_echo() {
    let desk = Desk::new();
    for args in QUESTIONS.into_iter().chain([&["up"][..], &["send", "a"], &["migrate"], &["doctor"]]) {
        let ran = desk.run(&[args, &["--db", "oracle://scott:tiger@db/shop"]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("postgres://") && ran.stderr.contains("mysql://"), "{ran:?}");
        assert!(!format!("{ran:?}").contains("tiger"), "{ran:?}");
    }
}

#[test]
fn help_does_not_show_the_environments_password() {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_postroom"))
        .args(["stats", "--help"])
        .env("POSTROOM_DB", "postgres://scott:tiger@db/shop")
        .output()
        .unwrap();
    assert!(ran.status.success() && !format!("{ran:?}").contains("tiger"), "{ran:?}");
}
