//! Handlers on SQLite: blocking ones run on the writer thread itself, many in one commit.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::chunk::run_all;
use crate::db::sqlite::receive::receive;
use crate::db::sqlite::store::SqliteShared;
use crate::db::sqlite::{BlockingFn, SqliteStore, SqliteTx};
use crate::message::{Headers, Incoming, IntoMessage, Message, MessageId, NewMessage, Payload};
use crate::queue::{Claimed, Queue};
use crate::store::{Admission, HandledMark, Stored};
use crate::support::error::{Error, ErrorKind, Result};
use crate::work::batch::BatchRun;
use crate::work::handler::{
    Ack, Backend, Blocking, Entry, HandlerError, HandlerResult, Handlers, Received, State, States,
};

/// SQLite, as handlers see it.
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, Handlers};
/// use postroom::sqlite::Sqlite;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: i64 }
///
/// async fn reserve(ctx: &mut Ctx<Sqlite>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let tx = ctx.tx().await?;
///     tx.run(move |conn| conn.execute("INSERT INTO reserved VALUES (?1)", [placed.order])).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::<Sqlite>::new().on(reserve);
/// ```
#[derive(Debug)]
pub enum Sqlite {}

/// What a blocking handler gets: the message, and the transaction that commits with its ack.
///
/// ```
/// use postroom::{Event, HandlerError, Handlers};
/// use postroom::sqlite::BlockingCtx;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: i64 }
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("invoice.due")]
/// struct InvoiceDue { order: i64 }
///
/// fn placed(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     ctx.tx().execute("UPDATE orders SET placed = 1 WHERE id = ?1", [placed.order])?;
///     ctx.enqueue(&InvoiceDue { order: placed.order })?;
///     Ok(())
/// }
///
/// let handlers = Handlers::new().on_blocking(placed);
/// ```
pub struct BlockingCtx<'c> {
    pub(super) conn: &'c Connection,
    /// Begins a savepoint. Called before the connection is used.
    pub(super) savepoint: Option<&'c dyn Fn()>,
    pub(super) core: &'c SqliteShared,
    pub(super) message: &'c Message,
    pub(super) state: &'c States,
    pub(super) enqueued: bool,
}

impl BlockingCtx<'_> {
    /// The connection: writes on it commit with the message's ack, or not at all. It belongs to the writer and is
    /// shared with all transactions: do not change its hooks, limits or busy handler.
    pub fn tx(&self) -> &Connection {
        self.savepoint.iter().for_each(|begin| begin());
        self.conn
    }

    /// The message.
    pub fn message(&self) -> &Message {
        self.message
    }

    /// The headers of the message.
    pub fn headers(&self) -> &Headers {
        &self.message.headers
    }

    /// The correlation id of the message, if it has one. Messages that the handler enqueues get the same one by
    /// default.
    pub fn correlation_id(&self) -> Option<&str> {
        self.message.correlation_id.as_deref()
    }

    /// The number of this attempt, counted from one.
    pub fn attempt(&self) -> u32 {
        self.message.attempts + 1
    }

    /// A value that was passed to the worker with [`Handlers::state`]. If the handler takes the [`State`] as an
    /// argument instead, a missing value is found when the worker starts.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>> {
        self.state.get()
    }

    /// Enqueues a message in the outbox; it is stored if and only if this handler succeeds.
    pub fn enqueue(&mut self, message: impl IntoMessage) -> Result<Stored> {
        let message = message.into_message()?.because_of(self.message);
        self.enqueued = true;
        self.core.enqueue_on(self.tx(), &message)
    }
}

impl std::fmt::Debug for BlockingCtx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingCtx").field("message", self.message).finish_non_exhaustive()
    }
}

type Erased = dyn Fn(&mut BlockingCtx<'_>) -> HandlerResult<Option<String>> + Send + Sync;

/// A blocking handler, whatever the type of its payload.
#[derive(Clone)]
pub struct BlockingHandler(pub(super) Arc<Erased>);

impl std::fmt::Debug for BlockingHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockingHandler")
    }
}

/// Calls a handler. A panic counts as a failure.
pub(super) fn call(handler: &BlockingHandler, ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler.0(ctx)))
        .unwrap_or_else(|panic| Err(HandlerError::panicked(panic.as_ref())))
}

/// The error that rolls the handler's savepoint back. If more than that is lost, it shows whose failure it was.
pub(super) fn as_error(failure: &HandlerError) -> Error {
    let kind = if failure.is_outage() { ErrorKind::Unavailable } else { ErrorKind::Callback };
    Error::new(kind, failure.to_string())
}

impl Handlers<Sqlite> {
    /// Adds a function that runs on the writer thread, for the topic of its payload. It must not wait for anything.
    ///
    /// ```
    /// use postroom::{HandlerError, Handlers, Payload};
    /// use postroom::sqlite::BlockingCtx;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct OrderPlaced { order: i64 }
    /// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
    ///
    /// fn reserve(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
    ///     ctx.tx().execute("INSERT INTO reserved (order_id) VALUES (?1)", [placed.order])?;
    ///     Ok(())
    /// }
    ///
    /// let handlers = Handlers::new().on_blocking(reserve);
    /// ```
    #[must_use]
    pub fn on_blocking<P: Payload, A: 'static>(self, handler: impl BlockingFn<P, P::Reply, A>) -> Self {
        let needed = BlockingFn::<P, P::Reply, A>::needed(&handler);
        let erased = move |ctx: &mut BlockingCtx<'_>| {
            let payload = crate::work::handler::decode::<P>(ctx.message)?;
            crate::work::handler::encode(&handler.call(ctx, payload)?)
        };
        self.add(P::TOPIC, Entry::Blocking(BlockingHandler(Arc::new(erased))), needed)
    }

    /// Adds a function that takes whole messages of a topic on the writer thread and answers with text.
    #[must_use]
    pub fn on_topic_blocking<F>(self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(&mut BlockingCtx<'_>) -> HandlerResult<Option<String>> + Send + Sync + 'static,
    {
        self.add(topic, Entry::Blocking(BlockingHandler(Arc::new(handler))), Vec::new())
    }
}

impl Backend for Sqlite {
    type Store = SqliteStore;
    type Tx = SqliteTx;
    type Conn<'t> = &'t mut SqliteTx;
    type Blocking = BlockingHandler;

    async fn begin(store: &SqliteStore, limit: Duration) -> Result<SqliteTx> {
        Ok(SqliteTx::new(store.0.clone(), limit))
    }

    fn conn(tx: &mut SqliteTx) -> &mut SqliteTx {
        tx
    }

    async fn enqueue(tx: &mut SqliteTx, message: NewMessage) -> Result<Stored> {
        tx.enqueue(message).await
    }

    async fn arrive(tx: &mut SqliteTx, incoming: &Incoming, hold: Duration) -> Result<Admission> {
        let arrive = tx.verb((incoming.clone(), hold), |verbs, conn, (incoming, hold), now| {
            Box::pin(verbs.arrive(conn, incoming, *hold, now))
        });
        arrive.await
    }

    async fn answer(tx: &mut SqliteTx, request: MessageId, from: &str, response: &str) -> Result<bool> {
        let args = (request, from.to_owned(), response.to_owned());
        let answer = tx.verb(args, |verbs, conn, (request, from, response), now| {
            Box::pin(verbs.answer(conn, (*request, from), response, now))
        });
        answer.await
    }

    async fn mark(tx: &mut SqliteTx, mark: &HandledMark, topic: &str) -> Result<bool> {
        tx.mark(mark.clone(), topic.to_owned()).await
    }

    async fn commit(tx: SqliteTx, ack: Option<Ack<'_>>) -> Result<()> {
        tx.commit(ack).await
    }

    fn overran(tx: &SqliteTx) -> bool {
        tx.overran
    }

    async fn roll_back(tx: SqliteTx) -> bool {
        tx.roll_back().await;
        true
    }

    async fn leave(tx: SqliteTx) -> Result<()> {
        tx.commit(None).await
    }

    async fn scope<F: Future + Send>(store: &SqliteStore, handler: F) -> F::Output {
        store.0.writer.in_handler(handler).await
    }
}

impl Blocking<Sqlite> for BlockingHandler {
    async fn call(self, tx: &mut SqliteTx, message: Arc<Message>, state: &States) -> HandlerResult<Option<String>> {
        tx.call(self, message, state.clone()).await
    }

    async fn receive(self, store: &SqliteStore, incoming: &Arc<Incoming>, state: &States) -> Result<Received> {
        receive(store, incoming, self, state).await
    }

    async fn run_all(store: &SqliteStore, queue: Queue, work: Vec<(Claimed, Self)>, state: &States, run: &BatchRun) {
        run_all(store, queue, work, state, run).await;
    }
}
