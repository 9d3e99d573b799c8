//! Handles messages once that do not come through the inbox: from a broker's consumer, through a layer of a service,
//! or in an HTTP request with an `Idempotency-Key`.

mod attempt;
mod handling;
#[cfg(feature = "axum")]
mod http;
#[cfg(feature = "tower")]
mod layer;
mod lines;
mod once;
mod options;
mod purges;
mod set;
#[cfg(feature = "tower")]
mod shared;

#[cfg(feature = "axum")]
pub use http::{IdempotencyKeyLayer, IdempotencyKeyOptions, IdempotencyKeyService, IdempotencyProblem, IdempotentTx};
#[cfg(feature = "tower")]
pub use layer::{Admitted, IdempotentLayer, IdempotentService, Identified};
pub use once::{Once, Unhandled};
pub use options::{IdempotentOptions, Marking};
pub use set::IdempotentHandlers;
#[cfg(feature = "tower")]
pub use shared::{CtxGuard, SharedCtx};

use std::fmt;
use std::sync::Arc;

use handling::{Handling, Typed, Whole};
use lines::Lines;
use postroom_core::message::{InboxKey, Incoming, Message, Payload, check_name};
use postroom_core::queue::{Cause, Fault};
use postroom_core::store::{HandledMarks, Marked, Store};
use postroom_core::support::error::Result;
use postroom_core::telemetry;
use postroom_core::work::handler::{Backend, HandlerError, HandlerFn, HandlerResult, States, retry_conflicts};
use purges::Purges;

/// At most this many old marks are deleted in one transaction.
const PURGED_AT_ONCE: usize = 1000;

/// Runs a handler once for each message, however often the message is delivered. It is cheap to clone.
///
/// It is for messages that do not come through the [`Inbox`](postroom_core::Inbox), for example from a broker's
/// consumer. Each handler has a name and marks every message under it, so several handlers can handle the same
/// message. When one message is delivered twice at the same time, one delivery waits for the other, in this process
/// and in others.
///
/// The handler is of the same kind as a worker's. What it writes to [`ctx.tx()`](postroom_core::Ctx::tx) and puts in
/// the outbox is stored together with the mark, or not at all ([`Marking`] has another mode). Dropping a run before
/// its end is like a crash at that point. On SQLite nobody else can write while the handler runs, and it is rolled
/// back after five seconds.
///
/// ```
/// use postroom::{Ctx, HandlerError, InboxKey, Incoming, Payload};
/// use postroom::idempotent::{Idempotent, Once};
/// use postroom::store::{Memory, MemoryStore};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: u64 }
/// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Reserved { order: u64 }
/// impl Payload for Reserved { const TOPIC: &'static str = "stock.reserved"; type Reply = (); }
///
/// async fn reserve(ctx: &mut Ctx<Memory>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     ctx.enqueue(&Reserved { order: placed.order }).await?;
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let reservations = Idempotent::<Memory>::new(MemoryStore::new(), "reserve-stock")?;
/// // The broker delivers this message twice:
/// let delivered = Incoming::new(InboxKey::new("orders-topic", "0/4711")?, "order.placed", r#"{"order":7}"#);
/// assert_eq!(reservations.run(delivered.clone(), reserve).await?, Once::Ran(()));
/// assert_eq!(reservations.run(delivered, reserve).await?, Once::Duplicate);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct Idempotent<B: Backend> {
    core: Arc<IdempotentShared<B>>,
    state: States,
}

struct IdempotentShared<B: Backend> {
    store: B::Store,
    handler: Arc<str>,
    options: IdempotentOptions,
    lines: Lines,
    purges: Purges,
}

impl<B: Backend> Idempotent<B> {
    /// Creates a runner for the handler of that name. The name is stored with every mark, so a handler that is
    /// renamed handles every message again.
    pub fn new(store: B::Store, handler: impl Into<String>) -> Result<Self> {
        Self::with(store, handler, IdempotentOptions::default())
    }

    /// Creates a runner with options.
    pub fn with(store: B::Store, handler: impl Into<String>, options: IdempotentOptions) -> Result<Self> {
        let (handler, options) = (handler.into(), options.checked()?);
        check_name("a handler's name", &handler)?;
        let (lines, purges) = (Lines::default(), Purges::default());
        let core = IdempotentShared { store, handler: handler.into(), options, lines, purges };
        Ok(Self { core: Arc::new(core), state: States::default() })
    }

    /// Adds a value that the handler can get from its context. It fails once the runner has been cloned.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Result<Self> {
        self.state.insert(value)?;
        Ok(self)
    }

    /// Runs the handler for a delivered message, unless the handler has already processed it.
    ///
    /// A deadlock or a lost race is retried at once, a few times. A payload that does not match its type is a failure
    /// of the handler. So is a message of another topic than the payload's; the handler does not see it.
    pub async fn run<P, R, A>(
        &self,
        incoming: Incoming,
        handler: impl for<'c> HandlerFn<'c, B, P, R, A>,
    ) -> Result<Once<R>, Unhandled>
    where
        P: Payload,
        R: Send,
    {
        if incoming.topic != P::TOPIC {
            let (topic, own) = (&incoming.topic, P::TOPIC);
            let why = format!("the message has the topic {topic:?}, but the handler is for {own:?}");
            return Err(Unhandled::Handler(Fault::new(Cause::NoHandler, why).into()));
        }
        let needed = HandlerFn::<'_, B, P, R, A>::needed(&handler);
        self.state.check(P::TOPIC, &needed).map_err(|missing| Unhandled::Handler(missing.into()))?;
        self.run_by(incoming, &Typed::<_, P, A>::new(handler)).await
    }

    /// Runs a handler that takes whole messages.
    pub async fn run_message<R: Send, A>(
        &self,
        incoming: Incoming,
        handler: impl for<'c> HandlerFn<'c, B, Arc<Message>, R, A>,
    ) -> Result<Once<R>, Unhandled> {
        let needed = HandlerFn::<'_, B, Arc<Message>, R, A>::needed(&handler);
        self.state.check(&incoming.topic, &needed).map_err(|missing| Unhandled::Handler(missing.into()))?;
        self.run_by(incoming, &Whole::<_, A>::new(handler)).await
    }

    async fn run_by<R: Send>(&self, incoming: Incoming, handler: &dyn Handling<B, R>) -> Result<Once<R>, Unhandled> {
        incoming.check_from_outside()?;
        let (key, core) = (incoming.key(), &self.core);
        let message = Arc::new(incoming.to_message(core.store.clock().now()));
        // This is boxed because it holds whole connections.
        let attempts = Box::pin(async {
            // If the mark is set first, the handler runs only once, because its external effects are worse twice than
            // never.
            let tried = match core.options.is_marked_before() {
                true => self.attempt(&incoming, &message, handler).await,
                false => retry_conflicts(|| self.attempt(&incoming, &message, handler)).await,
            };
            tried?.map_err(Unhandled::Handler)
        });
        let once = self.once(&incoming, attempts).await;
        if let Err(Unhandled::Handler(failure)) = &once {
            telemetry::marked_failed(core.store.name(), &core.handler, key, failure.why());
        }
        once
    }

    /// Tries once. An error is the database's, not the handler's.
    async fn attempt<R: Send>(
        &self,
        incoming: &Incoming,
        message: &Arc<Message>,
        handler: &dyn Handling<B, R>,
    ) -> Result<HandlerResult<Once<R>>> {
        let Some(mut ctx) = self.enter(message.clone(), incoming.key()).await? else { return Ok(Ok(Once::Duplicate)) };
        match self.call(handler.run(&mut ctx)).await {
            Ok(answer) => self.commit(ctx).await.map(|()| Ok(Once::Ran(answer))),
            Err(failure) => {
                let overran = ctx.tx.as_ref().is_some_and(B::overran);
                if let Some(tx) = ctx.tx {
                    B::roll_back(tx).await;
                }
                match Unhandled::by(failure) {
                    // Another attempt would hold the transaction too long again.
                    Unhandled::Store(error) if overran => Ok(Err(HandlerError::retry(error))),
                    Unhandled::Store(error) => Err(error),
                    Unhandled::Handler(failure) => Ok(Err(failure)),
                }
            }
        }
    }

    /// Returns the mark of a message: its topic, and when it was marked. The result is `None` while the message is
    /// handled for the first time, and after its mark was deleted.
    pub async fn marked(&self, key: &InboxKey) -> Result<Option<Marked>> {
        self.core.store.find_mark(self.mark(key)).await
    }

    /// Deletes this handler's marks that are older than its retention, and returns how many. This also happens
    /// automatically after a run, as often as [`cleanup_interval`](IdempotentOptions::cleanup_interval) says.
    pub async fn purge(&self) -> Result<u64> {
        let core = &self.core;
        let mut deleted = 0;
        loop {
            let batch = core.store.purge_marks(core.handler.clone(), core.options.retention, PURGED_AT_ONCE).await?;
            deleted += batch;
            if batch < PURGED_AT_ONCE as u64 {
                telemetry::marks_purged(core.store.name(), &core.handler, deleted);
                return Ok(deleted);
            }
        }
    }
}

impl<B: Backend> Clone for Idempotent<B> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), state: self.state.clone() }
    }
}

impl<B: Backend> fmt::Debug for Idempotent<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent").field("handler", &self.core.handler).finish_non_exhaustive()
    }
}
