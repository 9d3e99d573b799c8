//! What a handler is given besides the message's payload.

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

/// For so long an async handler that is not a worker's may keep everybody else from writing on an embedded database.
pub const HOLD_MAX: Duration = Duration::from_secs(5);

/// A database, as handlers see it: what its transaction is and what they are lent of it.
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
/// // A handler that uses no tables of its own works on every database.
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
    /// The store handlers run on.
    type Store: Store + HandledMarks + Clone;
    /// A transaction that owns its connection.
    type Tx: Send + 'static;
    /// What a handler is lent of it.
    type Conn<'t>: Send;
    /// A handler that runs where the connection is, without waiting; uninhabited where there is no such thing.
    type Blocking: Blocking<Self>;

    /// Begins a handler's transaction; it is held for at most `limit`.
    fn begin(store: &Self::Store, limit: Duration) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Lends the connection.
    fn conn(tx: &mut Self::Tx) -> Self::Conn<'_>;

    /// Puts a message into the outbox, in the handler's transaction.
    fn enqueue(tx: &mut Self::Tx, message: NewMessage) -> impl Future<Output = Result<Stored>> + Send;

    /// Puts the row of a message that arrived into the transaction and holds it there, or says what is known of it.
    fn arrive(tx: &mut Self::Tx, incoming: &Incoming, hold: Duration)
    -> impl Future<Output = Result<Admission>> + Send;

    /// Keeps the answer of that service to a message with the message in the outbox; false when there is no such
    /// message, or it has an answer.
    fn answer(
        tx: &mut Self::Tx,
        request: MessageId,
        from: &str,
        response: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Puts a mark on a message of that topic, there from the commit on; false when it is there already. While another
    /// transaction is putting it, this waits for that to end.
    fn mark(tx: &mut Self::Tx, mark: &HandledMark, topic: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Acknowledges, if there is something to, and commits: an error means that nothing of it is stored, except one of
    /// kind [`InDoubt`](crate::ErrorKind::InDoubt), which a transaction without an ack and without a mark may end with.
    fn commit(tx: Self::Tx, ack: Option<Ack<'_>>) -> impl Future<Output = Result<()>> + Send;

    /// Whether the handler held the transaction for longer than it may.
    fn overran(_: &Self::Tx) -> bool {
        false
    }

    /// Undoes everything. False when the connection is gone, and the database undoes it without us.
    fn roll_back(tx: Self::Tx) -> impl Future<Output = bool> + Send;

    /// Ends a transaction in which nothing was written. An error means that what was read in it may not be there: on an
    /// embedded database it may be a neighbour's that is committed together with this one.
    fn leave(tx: Self::Tx) -> impl Future<Output = Result<()>> + Send {
        async {
            Self::roll_back(tx).await;
            Ok(())
        }
    }

    /// Marks the handler's task, so that a call that would wait for itself can be told.
    fn scope<F: Future + Send>(_: &Self::Store, handler: F) -> impl Future<Output = F::Output> + Send {
        handler
    }
}

/// What a transaction acknowledges: a message of that queue, under its lease, with an answer or without.
pub type Ack<'l> = (Queue, &'l Lease, Option<String>);

/// What became of a message that a blocking handler was to receive.
#[derive(Debug)]
pub enum Received {
    /// It was handled, and everything is stored.
    Handled(Option<String>),
    /// The handler failed; nothing is stored.
    Failed(HandlerError),
    /// It was not for the handler.
    Not(Admission),
}

/// What an async handler is given: the message, its own transaction, and the outbox bound to it.
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
    /// For so long a transaction may be held.
    pub(crate) hold_max: Duration,
    /// None until the handler first asks for it.
    #[doc(hidden)]
    pub tx: Option<B::Tx>,
    #[doc(hidden)]
    pub message: Arc<Message>,
    pub(crate) state: States,
    #[doc(hidden)]
    pub cancelled: CancellationToken,
}

impl<B: Backend> Ctx<B> {
    /// Without a transaction yet.
    #[doc(hidden)]
    pub fn new(store: &B::Store, hold_max: Duration, message: Arc<Message>, state: &States) -> Self {
        let (store, state, cancelled) = (store.clone(), state.clone(), CancellationToken::new());
        Self { store, hold_max, tx: None, message, state, cancelled }
    }

    /// The connection: what is written here commits with the message's ack, or not at all.
    ///
    /// The transaction begins with the first call: call other services before it, not while it is open. A handler that
    /// never asks for it takes no connection.
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

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What travelled beside the payload.
    pub fn headers(&self) -> &Headers {
        &self.message.headers
    }

    /// What the message belongs to, if it says so. What the handler enqueues belongs to the same unless told otherwise.
    pub fn correlation_id(&self) -> Option<&str> {
        self.message.correlation_id.as_deref()
    }

    /// Which attempt this is, from one.
    pub fn attempt(&self) -> u32 {
        self.message.attempts + 1
    }

    /// A value given to the worker with [`Handlers::state`](crate::Handlers::state). As an argument of the handler, a
    /// [`State`] that is missing is found when the worker starts.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>> {
        self.state.get()
    }

    /// Fires when the work is in vain: the lease could not be renewed and ends soon, the time to handle it is almost
    /// over, or the worker has to stop now. There is a moment left to end well; then the handler is dropped.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Puts a message into the outbox of the same database; it is stored if and only if this handler succeeds.
    pub async fn enqueue(&mut self, message: impl IntoMessage) -> Result<Stored> {
        let message = message.into_message()?.because_of(&self.message);
        message.check()?;
        // Here: the database may have a thread of its own, which knows nothing of the handler's span.
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
