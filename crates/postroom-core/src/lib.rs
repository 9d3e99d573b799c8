//! The queue of Postroom: messages, the outbox and the inbox, stores on four databases, and the workers on them.
//!
//! Programs use the crate [`postroom`](https://docs.rs/postroom), which re-exports the public API. The modules here are
//! the building blocks of that crate and change without notice.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(
        feature = "sqlite",
        feature = "sqlx-0_9-postgres",
        feature = "sqlx-0_9-mysql",
        feature = "tiberius-0_13"
    )),
    allow(dead_code, unused_imports, reason = "some shared code is used only if all stores are enabled")
)]

// The modules are listed from the lowest layer to the highest; `cargo xtask tidy` checks the order of all modules.
#[doc(hidden)]
pub mod support;

#[doc(hidden)]
pub mod message;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod sql;
#[doc(hidden)]
pub mod store;
pub mod telemetry;

mod db;
#[doc(hidden)]
pub mod mailbox;
mod tenancy;
#[doc(hidden)]
pub mod work;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(any(
    feature = "sqlite",
    feature = "sqlx-0_9-postgres",
    feature = "sqlx-0_9-mysql",
    feature = "tiberius-0_13"
))]
pub use db::doctor;
#[cfg(feature = "tiberius-0_13")]
pub use db::mssql::{Mssql, MssqlConnection, MssqlOptions, MssqlStore};
#[cfg(feature = "sqlx-0_9-mysql")]
pub use db::mysql::{MySql, MySqlOptions, MySqlStore};
#[cfg(feature = "sqlx-0_9-postgres")]
pub use db::postgres::{Postgres, PostgresOptions, PostgresStore};
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub use db::server::{ServerOptions, ServerStore};
#[cfg(feature = "sqlite")]
pub use db::sqlite::{
    BackupProgress, BlockingCtx, BlockingFn, Durability, Sqlite, SqliteOptions, SqliteStore, SqliteTx, WriteTx,
    restore_check,
};
pub use mailbox::inbox::Inbox;
pub use mailbox::outbox::{Enqueued, Outbox};
pub use mailbox::request::Pending;
pub use mailbox::transaction::{Begin, Commit, OutboxTx};
pub use mailbox::work_queue::WorkQueue;
pub use message::{
    Command, ContentHash, Event, Headers, InboxKey, Incoming, IntoMessage, Kind, Message, MessageId, NewMessage,
    Origin, Outgoing, OwnerToken, Payload, PushCall, Replies, Signal, Unique, WorkItemId, hash_bytes, hash_value,
};
pub use queue::retry::{RetryPolicies, RetryPolicy};
pub use queue::{
    BATCH_MAX, CRASHES_MAX, Cause, ClaimRequest, Claimed, Claims, Fault, LEASE_MAX, Lease, Limit, OnDead, Pause, Place,
    Queue, Reaped, Rule, Scope, Settle, Settled, State, Topics, Whose,
};
pub use sql::{BlockingTx, Done, Migration, Statement, TableNames, Tx, Value};
pub use store::questions;
pub use store::{
    Act, Admission, Arrival, Audited, BoxFuture, Cancelled, CancelledLane, ERROR_GROUP_CHARS, Failed, FailedGroup,
    Failure, Filter, FirstInLane, HandledMark, HandledMarks, Hold, Identity, Lane, LanePlace, Lanes, ManualMove,
    Marked, MemoryStore, Operator, PutMode, QueueStats, Record, Revival, Sighting, Store, Stored, Times, Wake,
    WakeListener,
};
pub use support::clock::{Clock, ClockJump, JumpState, ManualClock, ServerClock, Timestamp};
pub use support::crash::crash_here;
pub use support::error::{Error, ErrorKind, Result};
pub use tenancy::{
    Candidate, Discovered, Discovery, DiscoveryOptions, DrainFirst, Fleet, LastTurn, Refreshed, RoundRobin, Router,
    Selection, StoreKey, StoreProvider, Stores,
};
pub use work::delivery::{Delivery, Transport};
pub use work::handler::{
    Backend, Callable, Calls, Ctx, Handle, HandlerError, HandlerFn, HandlerResult, Handlers, Memory,
};
pub use work::places::{Endpoint, HeldPlace, Limits, PlaceState, Places};
pub use work::pull::{LeaseToken, Pull, PullRequest, Pulled};
pub use work::worker::{Retention, Worker, WorkerOptions};
