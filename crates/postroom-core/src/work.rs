//! Everything that works on messages: handlers, the dispatcher, the worker's loop, and pulling.

pub mod batch;
pub mod delivery;
pub mod dispatcher;
pub mod handler;
pub mod places;
pub mod pull;
pub mod worker;
