//! The crash test at the size the test command can afford, and the proof that it would notice.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use postroom::testing::Sabotage;
use postroom_conformance::torture::{self, Options, Report};

/// One after the other: each of them needs the machine to itself.
static MACHINE: Mutex<()> = Mutex::new(());

fn run(kills: u32, messages: u64, pauses: u32, sabotage: Option<Sabotage>) -> Report {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_postroom-torture"));
    let seed = fastrand::u64(..);
    let report = torture::run(&Options { executable, kills, messages, pauses, seed, sabotage, dir: None, keep: false });
    let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    println!("{report}");
    report
}

#[test]
fn nothing_is_lost_or_doubled_through_50_kills_and_20_pauses() {
    let report = run(50, 5_000, 20, None);
    assert_eq!(report.failures(), Vec::<String>::new(), "{report}");
}

#[test]
fn without_fencing_the_crash_test_fails() {
    let report = run(15, 1_500, 6, Some(Sabotage::Fencing));
    assert!(report.stale_settles_applied > 0 || report.doubled > 0, "{report}");
}

#[test]
fn with_the_ack_outside_the_handlers_transaction_the_crash_test_fails() {
    let report = run(15, 1_500, 6, Some(Sabotage::AckOutside));
    assert!(report.doubled > 0, "{report}");
}
