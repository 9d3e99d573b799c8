//! Tools for tests of programs that use this library, and of the library itself.
//!
//! ```
//! use postroom::testing::{Workbench, assert_enqueued};
//! use postroom::{Ctx, Event, HandlerError, Handlers, Payload, Signal};
//! use postroom::handler::Backend;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Event)]
//! #[event("order.placed")]
//! struct OrderPlaced { order: u64 }
//!
//! #[derive(Serialize, Deserialize, Signal)]
//! #[signal("invoice.due")]
//! struct InvoiceDue { order: u64 }
//!
//! async fn placed<B: Backend>(ctx: &mut Ctx<B>, placed: OrderPlaced) -> Result<(), HandlerError> {
//!     ctx.enqueue(InvoiceDue { order: placed.order }.outgoing().to("billing").message()?).await?;
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let bench = Workbench::memory();
//! bench.outbox().enqueue(OrderPlaced { order: 7 }.outgoing()).await?;
//! let drained = bench.drain(Handlers::new().on(placed)).await?;
//! assert_eq!(drained.handled(), 1);
//! assert_enqueued(bench.outbox(), &InvoiceDue { order: 7 }).await;
//! assert_eq!(drained.sent_to("billing").len(), 1);
//! # Ok::<(), postroom::Error>(()) }).unwrap();
//! ```

mod drain;
mod enqueued;
mod twice;
mod workbench;

pub use drain::Drained;
pub use enqueued::{assert_enqueued, assert_not_enqueued, enqueued};
pub use twice::{Twice, handle_twice};
pub use workbench::Workbench;

#[cfg(feature = "sqlite")]
pub use crate::db::sqlite::statements::statements;
pub use crate::store::sabotage::Sabotage;
pub use crate::support::crash::point::CrashPoint;
pub use crate::work::worker::{Point, Probe};
