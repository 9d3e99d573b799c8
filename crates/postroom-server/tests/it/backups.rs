//! Scheduled backups of a node.

use std::path::PathBuf;

use crate::desk::{Desk, until};

#[test]
fn a_node_backs_its_file_up_and_says_so() {
    let desk = Desk::new();
    desk.write("postroom.toml", "[backup]\nevery = \"1h\"\nfolder = \"copies\"\n");
    desk.ok(&["send", "hello"]);
    assert!(desk.ok(&["config", "check"]).contains("backs up the file every 1h and keeps each copy for 7d"));
    let mut up = desk.start(&["up", "--exec", "true"]);
    let is_copy = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "db");
    let copy = || std::fs::read_dir(desk.path("copies")).ok()?.flatten().map(|file| file.path()).find(is_copy);
    until("there is a copy", || copy().is_some());
    let copy = copy().unwrap();
    up.terminate();
    assert_eq!(up.end().code(), Some(0));
    let total = desk.json(&["stats", "--db", copy.to_str().unwrap()])["outbox"]["total"].clone();
    assert_eq!(total, 1, "{}", copy.display());
}

#[test]
fn a_plan_that_cannot_work_is_refused_before_anything_starts() {
    let desk = Desk::new();
    let refused = |text: &str, said: &str| {
        desk.write("postroom.toml", text);
        for args in [&["up"][..], &["config", "check"]] {
            let ran = desk.run(args);
            assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains(said), "{args:?}: {ran:?}");
        }
    };
    refused("[backup]\nevery = \"5s\"\n", "postroom.toml:2: `every` in [backup]: it must be from 1m to");
    refused("[backup]\nevery = \"2h\"\nkeep = \"1h\"\n", "a copy would be deleted before the next one");
    refused("[backup]\nfolder = \"\"\n", "`folder` in [backup] must not be empty");
    refused(
        "[store]\nurl = \"postgres://nobody@127.0.0.1:1/none\"\n[backup]\nevery = \"1h\"\n",
        "only a SQLite file is backed up, and this database is PostgreSQL",
    );
}
