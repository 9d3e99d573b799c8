//! Handlers: functions that are given a message and the transaction its ack commits in.

mod admit;
mod again;
mod call;
mod context;
mod erased;
mod failure;
mod in_progress;
mod memory;
mod runner;

pub(crate) use admit::{Held, admit};
pub(crate) use again::persist;
pub use call::{Callable, Calls};
pub use context::{Backend, Ctx};
pub(crate) use context::{HOLD_MAX, Received, State};
pub(crate) use erased::{Entry, Erased, decode, encode};
pub use erased::{Handle, HandlerFn, Handlers};
pub use failure::{HandlerError, HandlerResult};
pub(crate) use in_progress::InProgress;
pub use memory::Memory;
pub(crate) use runner::{Runner, conclude};
