//! Reliable messaging between services, on the database they already have.
//!
//! *At-least-once delivery; exactly-once effect for everything the handler does inside its own transaction; nothing
//! acknowledged is ever lost while the storage honours fsync.*
//!
//! A message is written in the caller's own transaction ([`Outbox`]), claimed under a lease and handled or sent
//! ([`Worker`]), and what arrives is applied once ([`Inbox`]), also what a broker delivers ([`idempotent`]). The
//! [`guides`] explain each part; the first is `getting_started`.
//!
//! ```
//! use postroom::{Event, HandlerError, Handlers, Outbox, Worker};
//! use postroom::sqlite::{BlockingCtx, SqliteOptions};
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
//!     tx.enqueue(&OrderPlaced { order: 7 })
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

#[doc(inline)]
pub use postroom_core::{
    Command, Ctx, Error, ErrorKind, Event, HandlerError, HandlerResult, Handlers, Inbox, InboxKey, Incoming, Message,
    MessageId, NewMessage, Outbox, Payload, Result, RetryPolicy, Signal, Worker, WorkerOptions, crash_here,
};
#[cfg(feature = "macros")]
#[doc(inline)]
pub use postroom_macros::{Command, Event, Signal, push_call, service};

#[cfg(any(
    feature = "sqlite",
    feature = "sqlx-0_9-postgres",
    feature = "sqlx-0_9-mysql",
    feature = "tiberius-0_13"
))]
#[doc(inline)]
pub use postroom_core::doctor;
#[cfg(feature = "testing")]
#[doc(inline)]
pub use postroom_core::testing;
#[doc(inline)]
pub use postroom_core::{questions, telemetry};

pub mod message {
    //! Messages: ids, kinds, headers, typed payloads.

    #[doc(inline)]
    pub use postroom_core::{
        ContentHash, Headers, IntoMessage, Kind, Origin, Outgoing, OwnerToken, PushCall, Replies, Unique, WorkItemId,
        hash_bytes, hash_value,
    };
}

pub mod queue {
    //! The work queue: claims, leases, how a message is settled, whose failure it was.

    #[doc(inline)]
    pub use postroom_core::{
        BATCH_MAX, CRASHES_MAX, Cancelled, CancelledLane, Cause, ClaimRequest, Claimed, Claims, Enqueued, Fault,
        LEASE_MAX, Lease, LeaseToken, Pending, Place, Pull, PullRequest, Pulled, Queue, Reaped, RetryPolicies, Settle,
        Settled, State, Stored, Topics, Whose, WorkQueue,
    };
}

pub mod operator {
    //! What an operator sees and does: lists, failures, requeueing, dismissing, the audit trail.

    #[doc(inline)]
    pub use postroom_core::{
        Act, Audited, ERROR_GROUP_CHARS, Failed, FailedGroup, Failure, Filter, FirstInLane, Hold, Lane, LanePlace,
        Lanes, Limit, OnDead, Operator, Pause, QueueStats, Record, Revival, Rule, Scope,
    };
}

pub mod store {
    //! The contract of a store, and the one in memory.

    #[doc(inline)]
    pub use postroom_core::{
        Admission, Arrival, BoxFuture, HandledMark, HandledMarks, Identity, ManualMove, Marked, Memory, MemoryStore,
        PutMode, Sighting, Store, Times, Wake, WakeListener,
    };
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    #[doc(inline)]
    pub use postroom_core::{ServerOptions, ServerStore};
}

pub mod handler {
    //! What handlers are made of.

    #[doc(inline)]
    pub use postroom_core::work::handler::State;
    #[doc(inline)]
    pub use postroom_core::{Backend, Callable, Calls, Handle, HandlerFn};
}

pub mod worker {
    //! Workers: what they keep, where they send, and how much at once.

    #[doc(inline)]
    pub use postroom_core::{Delivery, Endpoint, HeldPlace, Limits, PlaceState, Places, Retention, Transport};
}

#[cfg(feature = "sqlite")]
pub mod sqlite {
    //! SQLite: the store, its options, its blocking handlers, backup.

    #[doc(inline)]
    pub use postroom_core::{
        BackupProgress, BlockingCtx, BlockingFn, Durability, Sqlite, SqliteOptions, SqliteStore, SqliteTx, WriteTx,
        restore_check,
    };
}

#[cfg(feature = "sqlx-0_9-postgres")]
pub mod postgres {
    //! PostgreSQL: the store and its options.

    #[doc(inline)]
    pub use postroom_core::{Postgres, PostgresOptions, PostgresStore};
}

#[cfg(feature = "sqlx-0_9-mysql")]
pub mod mysql {
    //! MySQL and MariaDB: the store and its options.

    #[doc(inline)]
    pub use postroom_core::{MySql, MySqlOptions, MySqlStore};
}

#[cfg(feature = "tiberius-0_13")]
pub mod mssql {
    //! SQL Server: the store and its options.

    #[doc(inline)]
    pub use postroom_core::{Mssql, MssqlConnection, MssqlOptions, MssqlStore};
}

pub mod sql {
    //! Statements for a transaction of your own, on any driver.

    #[doc(inline)]
    pub use postroom_core::{Begin, BlockingTx, Commit, Done, Migration, OutboxTx, Statement, TableNames, Tx, Value};
}

pub mod tenancy {
    //! Many databases at once: which there are, which one is meant, whose turn it is.

    #[doc(inline)]
    pub use postroom_core::{
        Candidate, Discovered, Discovery, DiscoveryOptions, DrainFirst, Fleet, LastTurn, Refreshed, RoundRobin, Router,
        Selection, StoreKey, StoreProvider, Stores,
    };
}

pub mod clock {
    //! Time, as stores and tests see it.

    #[doc(inline)]
    pub use postroom_core::{Clock, ClockJump, JumpState, ManualClock, ServerClock, Timestamp};
}

pub mod services {
    //! Messages between services: receivers, transports, keys, declared services.

    #[cfg(feature = "grpc")]
    #[doc(inline)]
    pub use postroom_services::GrpcService;
    #[doc(inline)]
    pub use postroom_services::{
        Accepts, Address, Client, Courier, Declared, Destination, HmacAlgorithm, Hook, Key, Keys, Neighbours, Peer,
        Receiver, ReceiverOptions, RunningService, Secret, Service, ServiceBuilder, Services, ServicesConfig, Source,
        Target, TransportType,
    };
    #[cfg(feature = "http")]
    #[doc(inline)]
    pub use postroom_services::{ClientTls, Egress, HttpService, ListenOptions, Listener, PushUrl, TlsIdentity};
}

pub mod webhooks {
    //! Peers that do not run Postroom: webhooks and CloudEvents.

    #[doc(inline)]
    pub use postroom_services::{CloudEventsMode, WebhookScheme, WebhookSecret, WebhookSigner};
}

pub mod idempotent {
    //! Handlers that run once for messages that do not come through the inbox.

    #[cfg(feature = "tower")]
    #[doc(inline)]
    pub use postroom_idempotent::{Admitted, CtxGuard, IdempotentLayer, IdempotentService, Identified, SharedCtx};
    #[cfg(feature = "axum")]
    #[doc(inline)]
    pub use postroom_idempotent::{
        IdempotencyKeyLayer, IdempotencyKeyOptions, IdempotencyKeyService, IdempotencyProblem, IdempotentTx,
    };
    #[doc(inline)]
    pub use postroom_idempotent::{Idempotent, IdempotentHandlers, IdempotentOptions, Marking, Once, Unhandled};
}

#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod macro_support;

#[cfg(any(doc, doctest))]
pub mod guides {
    //! The guides of the repository. The programs in them are compiled with the other examples.

    // On a code host the links of a guide lead to files, as the definitions at its end say. Here the definitions in
    // `guides.links` come first and count instead. Doctests do without them: they would shift the line numbers.

    #[cfg(feature = "sqlite")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/getting-started.md")]
    pub mod getting_started {}
    #[cfg(feature = "sqlite")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/handlers.md")]
    pub mod handlers {}
    #[cfg(all(feature = "sqlite", feature = "http"))]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/services.md")]
    pub mod services {}
    #[cfg(all(feature = "sqlite", feature = "http", feature = "macros"))]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/two-services.md")]
    pub mod two_services {}
    #[cfg(all(feature = "sqlite", feature = "axum"))]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/idempotency.md")]
    pub mod idempotency {}
    #[cfg(feature = "sqlite")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/multi-tenant.md")]
    pub mod multi_tenant {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/order.md")]
    pub mod order {}
    #[cfg(all(feature = "sqlite", feature = "testing", feature = "macros"))]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/testing.md")]
    pub mod testing {}
    #[cfg(all(
        feature = "sqlite",
        feature = "sqlx-0_9-postgres",
        feature = "sqlx-0_9-mysql",
        feature = "sqlx-0_9-sqlite",
        feature = "tiberius-0_13",
        feature = "tokio-postgres-0_7"
    ))]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/transactions.md")]
    pub mod transactions {}
    #[cfg(feature = "sqlx-0_9-postgres")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/postgres.md")]
    pub mod postgres {}
    #[cfg(feature = "sqlx-0_9-mysql")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/mysql.md")]
    pub mod mysql {}
    #[cfg(feature = "tiberius-0_13")]
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/sqlserver.md")]
    pub mod sqlserver {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/guarantees.md")]
    pub mod guarantees {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/states.md")]
    pub mod states {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/operations.md")]
    pub mod operations {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/trouble.md")]
    pub mod trouble {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/node.md")]
    pub mod node {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/any-language.md")]
    pub mod any_language {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/http-api.md")]
    pub mod http_api {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/wire.md")]
    pub mod wire {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/install.md")]
    pub mod install {}
    #[cfg_attr(not(doctest), doc = include_str!("guides.links"))]
    #[doc = include_str!("../guides/glossary.md")]
    pub mod glossary {}
    // The programs of these two are compiled with `examples/brokers` and `examples/tracing`.
    #[cfg(not(doctest))]
    #[doc = include_str!("guides.links")]
    #[doc = include_str!("../guides/brokers.md")]
    pub mod brokers {}
    #[cfg(not(doctest))]
    #[doc = include_str!("guides.links")]
    #[doc = include_str!("../guides/tracing.md")]
    pub mod tracing {}
    #[cfg(all(doctest, feature = "sqlite", feature = "sqlx-0_9-postgres", feature = "http", feature = "macros"))]
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}
