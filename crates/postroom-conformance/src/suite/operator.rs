//! What an operator sees, and what is recorded of an operator's actions.

mod audit;
mod dead_letters;
mod failed;
mod inspect;
mod lanes_seen;
mod logs;
mod metrics;
mod questions;
mod services_log;

use crate::case::Case;

/// Every case about operators.
pub(super) fn cases() -> Vec<Case> {
    let asked = [inspect::CASES, questions::CASES, failed::CASES, audit::CASES, lanes_seen::CASES];
    let told = [logs::CASES, services_log::CASES, metrics::CASES, dead_letters::CASES];
    [asked.concat(), told.concat()].concat()
}
