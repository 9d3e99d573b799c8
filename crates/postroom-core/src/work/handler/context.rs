//! What a handler gets besides the message's payload.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::message::{Headers, Incoming, IntoMessage, Message, MessageId, NewMessage};
use crate::queue::{Lease, Queue};
use crate::store::{Admission, HandledMark, HandledMarks, Store, Stored};
use crate::support::error::Result;
use crate::telemetry;
use crate::work::handler::{Blocking, HandlerError, HandlerResult, State, States};

/// How long an async handler outside a worker may keep everybody else from writing to an embedded database.
pub const HOLD_MAX: Duration = Duration::from_secs(5);

/// A database, as handlers see it: its transaction, and the connection that they borrow.
///
/// Implemented by the backends of this crate; its shape may change in any release.
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, Handlers};
/// use postroom::handler::Backend;
/// use postroom::sqlite::Sqlite;
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// // A handler that uses no tables works on every database.
/// async fn placed<B: Backend>(ctx: &mut Ctx<B>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     println!("order {}, attempt {}", placed.order, ctx.attempt());
///     Ok(())
/// }
///
/// let in_production = Handlers::<Sqlite>::new().on(placed);
/// let in_tests = Handlers::<Memory>::new().on(placed);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database of Postroom",
    note = "those are `Sqlite`, `Postgres`, `MySql`, `Mssql` and `Memory`, each with its feature"
)]
pub trait Backend: Sized + Send + Sync + 'static {
    /// The store that handlers run on.
    type Store: Store + HandledMarks + Clone;
    /// A transaction that owns its connection.
    type Tx: Send + 'static;
    /// The part of it that a handler borrows.
    type Conn<'t>: Send;
    /// A handler that runs on the connection's thread, without waiting. The type is uninhabited if the backend has
    /// none.
    type Blocking: Blocking<Self>;

    /// Begins a handler's transaction, which is held for at most `limit`.
    fn begin(store: &Self::Store, limit: Duration) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Lends the connection.
    fn conn(tx: &mut Self::Tx) -> Self::Conn<'_>;

    /// Stores a message in the outbox, in the handler's transaction.
    fn enqueue(tx: &mut Self::Tx, message: NewMessage) -> impl Future<Output = Result<Stored>> + Send;

    /// Adds the row of an incoming message to the transaction and holds it there, or returns what is known of the
    /// message.
    fn arrive(tx: &mut Self::Tx, incoming: &Incoming, hold: Duration)
    -> impl Future<Output = Result<Admission>> + Send;

    /// Stores a service's answer with the message in the outbox. Returns false if there is no such message, or if it
    /// has an answer.
    fn answer(
        tx: &mut Self::Tx,
        request: MessageId,
        from: &str,
        response: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Adds a mark to a message of that topic, valid from the commit on. Returns false if the mark exists. If another
    /// transaction is adding it, this waits for that transaction to end.
    fn mark(tx: &mut Self::Tx, mark: &HandledMark, topic: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Acknowledges, if there is a lease, and commits. An error means that nothing is stored, except an error of kind
    /// [`InDoubt`](crate::ErrorKind::InDoubt), which is possible in a transaction without an ack and without a mark.
    fn commit(tx: Self::Tx, ack: Option<Ack<'_>>) -> impl Future<Output = Result<()>> + Send;

    /// Returns whether the handler held the transaction for too long.
    fn overran(_: &Self::Tx) -> bool {
        false
    }

    /// Undoes everything. Returns false if the connection is gone; the database then rolls back by itself.
    fn roll_back(tx: Self::Tx) -> impl Future<Output = bool> + Send;

    /// Ends a transaction that wrote nothing. An error means that the data read in it may not exist: on an embedded
    /// database it may come from another job that shares the commit.
    fn leave(tx: Self::Tx) -> impl Future<Output = Result<()>> + Send {
        async {
            Self::roll_back(tx).await;
            Ok(())
        }
    }

    /// Marks the handler's task, so that a call that would wait for itself is detected.
    fn scope<F: Future + Send>(_: &Self::Store, handler: F) -> impl Future<Output = F::Output> + Send {
        handler
    }
}

/// What a transaction acknowledges: a message of a queue, under its lease, with or without an answer.
pub type Ack<'l> = (Queue, &'l Lease, Option<String>);

/// The result when a blocking handler receives a message.
#[derive(Debug)]
pub enum Received {
    /// It was handled, and everything is stored.
    Handled(Option<String>),
    /// The handler failed; nothing is stored.
    Failed(HandlerError),
    /// The handler was not called.
    Not(Admission),
}

/// What an async handler gets: the message, its own transaction, and the outbox of the same database.
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, Handlers};
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("invoice.due")]
/// struct InvoiceDue { order: u64, currency: String }
///
/// struct Currency(String);
///
/// async fn placed(ctx: &mut Ctx<Memory>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let currency = ctx.state::<Currency>()?;
///     let currency = currency.0.clone();
///     ctx.enqueue(&InvoiceDue { order: placed.order, currency }).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::new().on(placed).state(Currency("EUR".into()));
/// ```
pub struct Ctx<B: Backend> {
    pub(crate) store: B::Store,
    /// How long a transaction may be held.
    pub(crate) hold_max: Duration,
    /// `None` until the handler first asks for it.
    #[doc(hidden)]
    pub tx: Option<B::Tx>,
    #[doc(hidden)]
    pub message: Arc<Message>,
    pub(crate) state: States,
    #[doc(hidden)]
    pub cancelled: CancellationToken,
}

impl<B: Backend> Ctx<B> {
    /// Creates a context without a transaction.
    #[doc(hidden)]
    pub fn new(store: &B::Store, hold_max: Duration, message: Arc<Message>, state: &States) -> Self {
        let (store, state, cancelled) = (store.clone(), state.clone(), CancellationToken::new());
        Self { store, hold_max, tx: None, message, state, cancelled }
    }

    /// Returns the connection. What is written through it commits with the message's ack, or not at all.
    ///
    /// The first call begins the transaction. Call other services before it, not while it is open. A handler that never
    /// calls this uses no connection.
    pub async fn tx(&mut self) -> Result<B::Conn<'_>> {
        Ok(B::conn(self.begun().await?))
    }

    /// Runs a blocking handler in the transaction.
    #[doc(hidden)]
    pub async fn call_blocking(&mut self, handler: B::Blocking) -> HandlerResult<Option<String>> {
        let (message, state) = (self.message.clone(), self.state.clone());
        handler.call(self.begun().await?, message, &state).await
    }

    async fn begun(&mut self) -> Result<&mut B::Tx> {
        let tx = match self.tx.take() {
            Some(tx) => tx,
            None => B::begin(&self.store, self.hold_max).await?,
        };
        Ok(self.tx.insert(tx))
    }

    /// Returns the message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the headers of the message.
    pub fn headers(&self) -> &Headers {
        &self.message.headers
    }

    /// Returns the correlation id of the message, if it has one. Messages that the handler enqueues get the same id by
    /// default.
    pub fn correlation_id(&self) -> Option<&str> {
        self.message.correlation_id.as_deref()
    }

    /// Returns the number of this attempt, starting at one.
    pub fn attempt(&self) -> u32 {
        self.message.attempts + 1
    }

    /// Returns a value that was added to the worker with [`Handlers::state`](crate::Handlers::state). If a handler
    /// takes a [`State`] as an argument instead, a missing value is found when the worker starts.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>> {
        self.state.get()
    }

    /// Returns a token that fires when the work has become useless: the lease could not be renewed and ends soon, the
    /// time limit is almost over, or the worker has to stop now. The handler then has a moment to finish before it is
    /// dropped.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Stores a message in the outbox of the same database. It is stored if and only if this handler succeeds.
    pub async fn enqueue(&mut self, message: impl IntoMessage) -> Result<Stored> {
        let message = message.into_message()?.because_of(&self.message);
        message.check()?;
        // This happens here because the database may use a separate thread, which does not know the handler's span.
        let message = telemetry::into_traced(message);
        let told = telemetry::Enqueued::of(std::slice::from_ref(&message));
        let stored = B::enqueue(self.begun().await?, message).await?;
        told.tell(self.store.name(), &[stored]);
        Ok(stored)
    }
}

impl<B: Backend> fmt::Debug for Ctx<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("message", &self.message).finish_non_exhaustive()
    }
}
