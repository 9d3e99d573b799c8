//! The tables, deployed by the program or by hand.

use crate::desk::Desk;

#[test]
fn the_printed_schema_is_all_a_database_needs() {
    let desk = Desk::new();
    let sql = desk.ok(&["migrate", "--print"]);
    assert!(!desk.path("postroom.db").exists());
    assert_eq!(desk.json(&["migrate", "--print"])["sql"], sql.as_str());
    let conn = rusqlite::Connection::open(desk.path("shop.db")).unwrap();
    for _ in 0..2 {
        conn.execute_batch(&sql).unwrap();
    }
    assert_eq!(desk.json(&["stats", "--db", "shop.db"])["outbox"]["total"], 0);
    desk.ok(&["send", "a", "--db", "shop.db"]);
}

#[test]
fn migrate_adds_the_tables_beside_others() {
    let desk = Desk::new();
    let conn = rusqlite::Connection::open(desk.path("shop.db")).unwrap();
    conn.execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)").unwrap();
    for _ in 0..2 {
        desk.ok(&["migrate", "--db", "shop.db"]);
    }
    assert_eq!(desk.json(&["stats", "--db", "shop.db"])["inbox"]["total"], 0);
    assert_eq!(conn.query_row("SELECT id FROM orders", [], |row| row.get::<_, i64>(0)), Ok(7));
}

#[test]
fn a_check_changes_nothing_and_has_an_exit_code_of_its_own() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["migrate", "--check"]).code, Some(1), "there is no file");
    rusqlite::Connection::open(desk.path("postroom.db")).unwrap().execute("CREATE TABLE orders (id)", []).unwrap();
    for _ in 0..2 {
        let ran = desk.run(&["migrate", "--check"]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(ran.stderr.contains("are not there") && ran.stderr.contains("`postroom migrate`"), "{ran:?}");
    }
    desk.ok(&["migrate"]);
    assert_eq!(desk.json(&["migrate", "--check"])["tables"], "up to date");
    desk.sql("UPDATE postroom_schema SET version = 99");
    let ran = desk.run(&["migrate", "--check"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("version 99"), "{ran:?}");
    assert_eq!(desk.run(&["migrate", "--check", "--print"]).code, Some(2));
}

#[test]
fn the_file_can_be_named_by_the_environment() {
    let desk = Desk::new();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_postroom"))
        .args(["send", "a"])
        .env("POSTROOM_DB", desk.path("elsewhere.db"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(desk.path("elsewhere.db").exists());
}
