//! `postroom doctor` on a file.

use crate::desk::Desk;

#[test]
fn a_file_of_ours_is_without_danger() {
    let desk = Desk::new();
    desk.ok(&["send", "a"]);
    let report = desk.json(&["doctor"]);
    let findings = report["findings"].as_array().unwrap();
    let level = |setting: &str| findings.iter().find(|finding| finding["setting"] == setting).unwrap()["level"].clone();
    for setting in ["schema", "quick_check", "journal_mode", "synchronous", "file mode"] {
        assert_eq!(level(setting), "ok", "{report}");
    }
    assert!(desk.ok(&["doctor", "--db", "sqlite:postroom.db"]).contains("SQLite"));
}

#[test]
fn a_damaged_file_is_a_danger() {
    let desk = Desk::new();
    desk.ok(&["send", "a", "--count", "500"]);
    let path = desk.path("postroom.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // Damage everything but the first page, so that it still opens.
    bytes[8192..].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let ran = desk.run(&["doctor", "--quiet"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stdout.contains("danger   quick_check"), "{ran:?}");
}

#[test]
fn a_missing_file_is_not_created() {
    let desk = Desk::new();
    let ran = desk.run(&["doctor"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("there is no database at") && !desk.path("postroom.db").exists(), "{ran:?}");
}
