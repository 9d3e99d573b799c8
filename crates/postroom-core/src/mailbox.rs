//! The public API of the queues: outbox, inbox, and the verbs that both have.

mod cancel;
pub mod inbox;
pub(crate) mod operator;
pub mod outbox;
pub(crate) mod questions;
pub mod request;
pub mod transaction;
pub mod work_queue;
