//! What every layer needs: errors, clocks, tasks and crash points.

pub(crate) mod by_number;
pub mod clock;
pub mod crash;
pub mod error;
mod setters;
pub mod task;
