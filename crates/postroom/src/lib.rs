//! Reliable messaging between services, on the database they already have.
//!
//! *At-least-once delivery; exactly-once effect for everything the handler does inside its own transaction; nothing
//! acknowledged is ever lost while the storage honours fsync.*
//!
//! A message is written in the caller's own transaction ([`Outbox`]), claimed under a lease and handled or sent
//! ([`Worker`]), and what arrives is applied once ([`Inbox`]), also what a broker delivers ([`Idempotent`]).
//!
//! ```
//! use postroom::{BlockingCtx, Event, HandlerError, Handlers, Outbox, SqliteOptions, Worker};
//!
//! #[derive(serde::Serialize, serde::Deserialize, Event)]
//! #[event("order.placed")]
//! struct OrderPlaced { order: i64 }
//!
//! // Runs in the transaction its ack commits in: both are stored, or neither.
//! fn reserve(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
//!     ctx.tx().execute("INSERT INTO reserved (order_id) VALUES (?1)", [placed.order])?;
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("shop.db");
//! let store = SqliteOptions::new(path).deploy_schema(true).open().await?;
//! store.write(|tx| {
//!     tx.execute_batch("CREATE TABLE orders (id INTEGER); CREATE TABLE reserved (order_id INTEGER)")?;
//!     Ok(())
//! }).await?;
//!
//! // The order and the message about it: one transaction.
//! store.write(|tx| {
//!     tx.execute("INSERT INTO orders (id) VALUES (?1)", [7])?;
//!     tx.enqueue(&postroom::NewMessage::of(&OrderPlaced { order: 7 })?)
//! }).await?;
//!
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let worker = Worker::outbox(store.clone(), Handlers::new().on_blocking(reserve));
//! let worker = tokio::spawn(worker.run(async { stopped.await.ok(); }));
//! # while Outbox::new(store.clone()).queue().stats().await?.done == 0 { tokio::task::yield_now().await; }
//! # stop.send(()).unwrap();
//! # worker.await.unwrap()
//! # }).unwrap();
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

pub use postroom_core::Inbox;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub use postroom_core::ServerStore;
pub use postroom_core::WorkQueue;
pub use postroom_core::crash_here;
#[cfg(any(
    feature = "rusqlite-0_39",
    feature = "sqlx-0_9-postgres",
    feature = "sqlx-0_9-mysql",
    feature = "tiberius-0_13"
))]
pub use postroom_core::doctor;
pub use postroom_core::questions;
pub use postroom_core::telemetry;
#[cfg(feature = "testing")]
pub use postroom_core::testing;
pub use postroom_core::{
    Act, Admission, Arrival, Audited, BoxFuture, ERROR_CHARS_LOOKED_AT, Failed, FailedGroup, Failure, Filter, Hold,
    Identity, Mark, MarkId, Marked, Marks, MemoryStore, Operator, PutMode, QueueStats, Record, Revival, Sighting,
    Store, Stored, Times, Wake, WakeListener,
};
pub use postroom_core::{
    BATCH_MAX, CRASHES_MAX, Cause, ClaimRequest, Claimed, Claims, Fault, LEASE_MAX, Lease, Place, Queue, Reaped,
    Settle, Settled, State, Topics, Whose,
};
pub use postroom_core::{
    Backend, Callable, Calls, Ctx, Handle, HandlerError, HandlerFn, HandlerResult, Handlers, Memory,
};
#[cfg(feature = "rusqlite-0_39")]
pub use postroom_core::{
    BackupProgress, BlockingCtx, BlockingFn, Durability, Sqlite, SqliteOptions, SqliteStore, SqliteTx, WriteTx,
    restore_check,
};
pub use postroom_core::{Begin, Commit, Enqueued, Outbox, OutboxTx};
pub use postroom_core::{BlockingTx, Done, Statement, TableNames, Tx, Value};
pub use postroom_core::{
    Candidate, Discovered, Discovery, DiscoveryOptions, DrainFirst, Fleet, LastTurn, Refreshed, RoundRobin, Router,
    Selection, StoreKey, StoreProvider, Stores,
};
pub use postroom_core::{Clock, ClockJump, JumpState, ManualClock, ServerClock, Timestamp};
pub use postroom_core::{
    Command, ContentHash, Event, Headers, InboxKey, Incoming, IntoMessage, Kind, Message, MessageId, NewMessage,
    Origin, Outgoing, OwnerToken, Payload, PushCall, Replies, Signal, WorkItemId, hash_bytes, hash_value,
};
pub use postroom_core::{Delivery, Transport};
pub use postroom_core::{Endpoint, HeldPlace, Limits, PlaceState, Places};
pub use postroom_core::{Error, ErrorKind, Result};
pub use postroom_core::{LeaseToken, Pull, PullRequest, Pulled};
#[cfg(feature = "tiberius-0_13")]
pub use postroom_core::{Mssql, MssqlConnection, MssqlOptions, MssqlStore};
#[cfg(feature = "sqlx-0_9-mysql")]
pub use postroom_core::{MySql, MySqlOptions, MySqlStore};
pub use postroom_core::{Pending, Request};
#[cfg(feature = "sqlx-0_9-postgres")]
pub use postroom_core::{Postgres, PostgresOptions, PostgresStore};
pub use postroom_core::{Retention, Worker, WorkerOptions};
pub use postroom_core::{RetryPolicies, RetryPolicy};
#[cfg(feature = "tower")]
pub use postroom_idempotent::{Admitted, CtxGuard, IdempotentLayer, IdempotentService, Identified, SharedCtx};
#[cfg(feature = "axum")]
pub use postroom_idempotent::{
    IdempotencyKeyLayer, IdempotencyKeyOptions, IdempotencyKeyService, IdempotencyProblem, IdempotentTx,
};
pub use postroom_idempotent::{Idempotent, IdempotentHandlers, IdempotentOptions, Marking, Once, Unhandled};
#[cfg(feature = "grpc")]
pub use postroom_services::GrpcService;
pub use postroom_services::{Accepts, Client, Target};
pub use postroom_services::{
    Address, Courier, Destination, Neighbours, Peer, Service, Services, ServicesConfig, TransportType,
};
#[cfg(feature = "http")]
pub use postroom_services::{ClientTls, Egress, HttpService, ListenOptions, Listener, PushUrl, TlsIdentity};
pub use postroom_services::{CloudEventsMode, WebhookScheme, WebhookSecret, WebhookSigner};
pub use postroom_services::{Declaration, Declared, Running};
pub use postroom_services::{HmacAlgorithm, Key, Keys, Secret};
pub use postroom_services::{Hook, Receiver, ReceiverOptions, Source};

#[cfg(feature = "macros")]
pub use postroom_macros::{Command, Event, Signal, push_call, service};

/// What handlers take besides the context and the message.
pub mod handler {
    pub use postroom_core::work::handler::State;
}

#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod macro_support;

// The programs in the README and the guides are compiled with the other examples in the documentation.
#[cfg(all(doctest, feature = "rusqlite-0_39"))]
mod guides {
    #[doc = include_str!("../../../guides/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../../../guides/handlers.md")]
    mod handlers {}
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../guides/services.md")]
    mod services {}
    #[cfg(all(feature = "http", feature = "macros"))]
    #[doc = include_str!("../../../guides/two-services.md")]
    mod two_services {}
    #[cfg(feature = "axum")]
    #[doc = include_str!("../../../guides/idempotency.md")]
    mod idempotency {}
    #[doc = include_str!("../../../guides/multi-tenant.md")]
    mod multi_tenant {}
    #[cfg(all(feature = "testing", feature = "macros"))]
    #[doc = include_str!("../../../guides/testing.md")]
    mod testing {}
    #[cfg(all(feature = "sqlx-0_9-postgres", feature = "http", feature = "macros"))]
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[cfg(all(
        feature = "sqlx-0_9-postgres",
        feature = "sqlx-0_9-mysql",
        feature = "sqlx-0_9-sqlite",
        feature = "tiberius-0_13",
        feature = "tokio-postgres-0_7"
    ))]
    #[doc = include_str!("../../../guides/transactions.md")]
    mod transactions {}
    #[cfg(feature = "sqlx-0_9-postgres")]
    #[doc = include_str!("../../../guides/postgres.md")]
    mod postgres {}
    #[cfg(feature = "sqlx-0_9-mysql")]
    #[doc = include_str!("../../../guides/mysql.md")]
    mod mysql {}
    #[cfg(feature = "tiberius-0_13")]
    #[doc = include_str!("../../../guides/sqlserver.md")]
    mod sqlserver {}
}
