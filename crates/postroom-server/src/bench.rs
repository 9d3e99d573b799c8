//! How fast a database takes, hands out and finishes messages: measured in tables of its own, gone afterwards.

mod phases;
mod scratch;
mod tally;

pub(crate) use phases::{Plan, measure};
pub(crate) use scratch::Scratch;
pub(crate) use tally::Measured;
