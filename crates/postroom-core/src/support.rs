//! What every layer needs: errors, clocks, tasks, places to crash at.

pub mod clock;
pub mod crash;
pub mod error;
pub mod task;
