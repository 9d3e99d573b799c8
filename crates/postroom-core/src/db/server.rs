//! A store on a database server, whatever the server and its driver: connections, transactions with retries, group
//! commit, wake-ups. The differences between servers are in an [`Engine`].

mod backend;
pub(crate) mod connection;
mod examine;
mod group_commit;
mod handling;
mod idle_poll;
mod migrate;
mod options;
#[cfg(feature = "testing")]
mod plans;
mod pool;
mod store;
mod texts;
mod transact;

pub(crate) use backend::Lends;
pub(crate) use examine::examine;
pub(crate) use handling::HandlerTx;
pub use options::ServerOptions;
pub(crate) use options::{Settings, check_scheme};
pub(crate) use pool::{Pool, Pooled};
pub(crate) use store::ServerShared;
pub use store::ServerStore;

use std::fmt;
use std::future::Future;

use crate::db::server::connection::Patience;
use crate::sql::Session;
use crate::sql::dialect::Dialect;
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// A database server, used through one of its drivers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database of Postroom",
    note = "those are `Sqlite`, `Postgres`, `MySql`, `Mssql` and `Memory`, each with its feature"
)]
pub(crate) trait Engine: Lends + fmt::Debug + Send + Sync + Sized + 'static {
    /// The address of the server, and our credentials there.
    type Target: fmt::Debug + Clone + Send + Sync;
    type ServerConnection: ServerConnection;
    /// How other processes are notified of new rows.
    type Signal: Signal<Self>;

    const DIALECT: &'static Dialect;
    /// The fence that checks nothing, for a test that shows what happens without one.
    #[cfg(feature = "testing")]
    const NO_FENCE: crate::sql::dialect::Fence;
    /// How many connections listen for other processes.
    const LISTENERS: usize;

    fn connect(target: &Self::Target, purpose: Purpose) -> impl Future<Output = Result<Self::ServerConnection>> + Send;

    /// The part of a connection that a handler borrows.
    fn lend(link: &mut Self::ServerConnection) -> &mut Self::Lent;
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Our own statements. Nothing else runs on it.
    SqlVerbs,
    /// Handlers. They may run any statement.
    Handlers,
}

/// One of our connections. Dropping it closes it.
pub(crate) trait ServerConnection: Session + fmt::Debug + Send + Sync + 'static {
    /// What the server reports about itself; an error if it cannot guarantee what the store promises.
    fn hello(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Waits until no other program deploys, and keeps the others waiting. If `atomic`, what follows is one
    /// transaction, where the server can create tables in one.
    fn begin_deploy(&mut self, atomic: bool) -> impl Future<Output = Result<()>> + Send;

    /// Runs a text of several statements without values, as a part of a deployment. A query before it may have failed.
    fn run_text(&mut self, text: &str) -> impl Future<Output = Result<()>> + Send;

    /// Ends a deployment that succeeded. If one fails, close the connection.
    fn end_deploy(&mut self, atomic: bool) -> impl Future<Output = Result<()>> + Send;

    /// Begins a transaction whose commit will be durable.
    fn begin(&mut self) -> impl Future<Output = Result<Began>> + Send;

    /// Begins a handler's transaction, in which the user's own code runs. It fails if the server takes no writes.
    fn begin_for_handler(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Commits. After an error of kind `Unavailable` it is unknown whether the transaction was committed.
    fn commit(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Commits a handler's transaction. It fails if that is no longer the one that was begun.
    fn commit_for_handler(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.commit()
    }

    /// Rolls the transaction back.
    fn roll_back(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// How long it waits, and whether it must not be used again.
    fn patience(&mut self) -> &mut Patience;

    /// Fails if a handler's transaction is no longer the one that was begun: a write would then be committed without
    /// the earlier ones. A database whose commit can find out in the same round trip leaves it to that.
    fn check_open(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Runs before the commit of a handler's transaction that ends without an ack. It fails, as the ack would, if the
    /// transaction is no longer open, or if an error that the handler ignored has aborted it. PostgreSQL treats the
    /// COMMIT of an aborted transaction as a ROLLBACK, without an error.
    fn seal(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.check_open()
    }
}

/// What a server reports when a transaction begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// The server's time.
    pub(crate) said: Timestamp,
    /// Whether the server takes no writes.
    pub(crate) is_read_only: bool,
}

impl Began {
    /// The server's time, if it takes writes.
    pub(crate) fn writable(self) -> Result<Timestamp> {
        if self.is_read_only { Err(connection::read_only()) } else { Ok(self.said) }
    }
}

/// How processes notify each other of new rows.
pub(crate) trait Signal<E: Engine>: fmt::Debug + Send + Sync + 'static {
    fn new(target: E::Target, settings: &Settings, wakes: [crate::store::Wake; 2]) -> Self;

    /// Listens for notifications from now on, until it is dropped.
    fn listen(&self);

    /// Notifies the other processes, soon and not too often.
    fn tell(&self, queue: crate::queue::Queue, pool: &std::sync::Arc<Pool<E>>);

    /// Returns what a lone message of the outbox can tell the other processes with its own commit.
    fn news(&self) -> Option<crate::store::News> {
        None
    }
}

/// Sends no notifications: other processes poll.
#[cfg(any(feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
#[derive(Debug)]
pub(crate) struct Silence;

#[cfg(any(feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
impl<E: Engine> Signal<E> for Silence {
    fn new(_: E::Target, _: &Settings, _: [crate::store::Wake; 2]) -> Self {
        Self
    }

    fn listen(&self) {}

    fn tell(&self, _: crate::queue::Queue, _: &std::sync::Arc<Pool<E>>) {}
}
