//! Measures how fast a database enqueues, claims and acks messages, in temporary tables.

mod phases;
mod scratch;
mod tally;

pub(crate) use phases::{Plan, measure};
pub(crate) use scratch::Scratch;
pub(crate) use tally::Measured;
