//! The cases, by what they promise.

mod databases;
mod once;
mod operator;
mod queue;
mod services;
mod worker;

pub use databases::processes::run_as_child;
pub use queue::model::{SEED_VARIABLE, seed};

use crate::case::Case;

/// Every case.
pub fn cases() -> Vec<Case> {
    [queue::cases(), worker::cases(), databases::cases(), services::cases(), once::cases(), operator::cases()].concat()
}
