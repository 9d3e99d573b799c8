//! `postroom demo`, on a small scale.

use crate::desk::Desk;

#[test]
fn nothing_is_lost_or_doubled_while_the_worker_is_killed() {
    let desk = Desk::new();
    let ledger = desk.json(&["demo", "--orders", "300", "--kills", "3", "--seconds", "2"]);
    for (name, wanted) in [("sent", 300), ("handled", 300), ("lost", 0), ("doubled", 0), ("kills", 3), ("left", 0)] {
        assert_eq!(ledger[name], wanted, "{name}: {ledger}");
    }
    assert!(ledger["taken_over"].as_u64() > Some(0), "a kill that hits nothing shows nothing: {ledger}");
    assert!(!desk.path("postroom.db").exists());
}
