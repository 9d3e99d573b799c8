//! A store on a database server, whatever the server and its driver: connections, transactions that are tried again,
//! group commit, wake-ups. What differs between servers is an [`Engine`].

mod backend;
pub(crate) mod connection;
mod examine;
mod group_commit;
mod handling;
mod idle_poll;
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
use crate::support::error::{Error, ErrorKind, Result};

/// A database server through one of its drivers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database of Postroom",
    note = "those are `Sqlite`, `Postgres`, `MySql`, `Mssql` and `Memory`, each with its feature"
)]
pub(crate) trait Engine: Lends + fmt::Debug + Send + Sync + Sized + 'static {
    /// Where the server is and who we are there.
    type Target: fmt::Debug + Clone + Send + Sync;
    type ServerConnection: ServerConnection;
    /// How other processes are told that rows came in.
    type Signal: Signal<Self>;

    const DIALECT: &'static Dialect;
    /// For a test that shows what happens without one.
    #[cfg(feature = "testing")]
    const NO_FENCE: crate::sql::dialect::Fence;
    /// How many connections listen for other processes.
    const LISTENERS: usize;

    fn connect(target: &Self::Target, purpose: Purpose) -> impl Future<Output = Result<Self::ServerConnection>> + Send;

    /// What a handler is lent of a connection.
    fn lend(link: &mut Self::ServerConnection) -> &mut Self::Lent;
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Our own verbs: only our own statements run on it.
    SqlVerbs,
    /// Handlers: whatever the user does.
    Handlers,
}

/// One of our connections. Dropping it closes it.
pub(crate) trait ServerConnection: Session + fmt::Debug + Send + Sync + 'static {
    /// What the server says of itself; an error when it cannot keep the promise.
    fn hello(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Runs a text of several statements without values, under a lock that keeps a second one waiting.
    fn deploy(&mut self, schema: &str) -> impl Future<Output = Result<()>> + Send;

    /// Begins a transaction whose commit will be durable.
    fn begin(&mut self) -> impl Future<Output = Result<Began>> + Send;

    /// Begins a handler's transaction, in which the user's own code runs.
    fn begin_for_handler(&mut self) -> impl Future<Output = Result<Began>> + Send;

    /// Commits. An error of kind `Unavailable` leaves open whether it was.
    fn commit(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Undoes the transaction.
    fn roll_back(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// How long it waits, and whether it must not be used again.
    fn patience(&mut self) -> &mut Patience;

    /// Fails when a handler's transaction is no longer the one that was begun: what is written now would stand alone.
    fn check_open(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// What comes before the commit of a handler's transaction that ends without an ack: it fails as the ack would when
    /// the transaction is no longer open, or was aborted by an error that the handler overlooked. PostgreSQL takes the
    /// COMMIT of such a one for a ROLLBACK, and says nothing.
    fn seal(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.check_open()
    }
}

/// What a server says when a transaction begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// What time it is there.
    pub(crate) said: Timestamp,
    /// Whether nothing can be written there.
    pub(crate) is_read_only: bool,
}

impl Began {
    /// The server's time, if it takes writes.
    pub(crate) fn writable(self) -> Result<Timestamp> {
        if self.is_read_only {
            let why = "the server is read-only: a standby, or a primary that another one has taken over from";
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        Ok(self.said)
    }
}

/// How other processes are told that rows came in, and how they tell us.
pub(crate) trait Signal<E: Engine>: fmt::Debug + Send + Sync + 'static {
    fn new(target: E::Target, settings: &Settings, wakes: [crate::store::Wake; 2]) -> Self;

    /// Listens for the others from now on, until it is dropped.
    fn listen(&self);

    /// Tells the others, soon and not too often.
    fn tell(&self, queue: crate::queue::Queue, pool: &std::sync::Arc<Pool<E>>);
}

/// Nobody is told: the others poll.
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
