//! Handlers: functions that get a message and the transaction that commits its ack.

mod admit;
mod again;
mod blocking;
mod call;
mod context;
mod erased;
mod failure;
mod function;
mod in_progress;
mod memory;
pub mod runner;
mod state;
mod tuning;

pub use admit::{Held, admit};
pub use again::retry_conflicts;
pub use blocking::Blocking;
pub use call::{Callable, Calls};
pub use context::{Ack, HOLD_MAX, Received};
pub use context::{Backend, Ctx};
pub use erased::{Entry, Erased, decode, encode};
pub use erased::{Handle, Handlers};
pub use failure::{HandlerError, HandlerResult};
pub use function::HandlerFn;
pub use in_progress::InProgress;
pub use memory::Memory;
pub(crate) use runner::{Runner, ack_and_commit};
pub use state::{Needed, State, States};
