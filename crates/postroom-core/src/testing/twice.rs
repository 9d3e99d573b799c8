//! Runs a handler twice for one message, and reports whether its effects doubled.

use std::fmt;
use std::time::Duration;

use super::Workbench;
use crate::message::{MessageId, OwnerToken, Payload};
use crate::queue::{BATCH_MAX, Claimed};
use crate::support::error::{Error, Result};
use crate::work::handler::{Backend, Ctx, Entry, Handlers};

const LEASE: Duration = Duration::from_secs(30);

/// What was observed after a handler ran once, and after it ran, crashed just before its commit, and ran again.
///
/// ```
/// # use postroom::testing::{Twice, Workbench, handle_twice};
/// # use postroom::{Ctx, Event, HandlerError, Handlers};
/// # use postroom::store::Memory;
/// # #[derive(serde::Serialize, serde::Deserialize, Event)]
/// # #[event("order.placed")]
/// # struct OrderPlaced;
/// # async fn placed(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let world = async || Ok((Workbench::memory(), Handlers::new().on(placed), ()));
/// let ready = async |bench: &Workbench<Memory>, _: &()| Ok(bench.outbox().queue().stats().await?.ready);
/// let seen: Twice<u64> = handle_twice(&OrderPlaced, world, ready).await?;
/// seen.assert_single();
/// assert!(!seen.doubled());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Twice<T> {
    /// The observation after one run.
    pub once: T,
    /// The observation after a run that was lost at its very end, and a second run.
    pub twice: T,
}

impl<T: PartialEq + fmt::Debug> Twice<T> {
    /// Returns whether the second run repeated an effect.
    pub fn doubled(&self) -> bool {
        self.once != self.twice
    }

    /// Checks that the second run repeated no effect.
    ///
    /// # Panics
    ///
    /// Panics when the effects doubled, with both observations.
    pub fn assert_single(&self) {
        assert!(
            !self.doubled(),
            "the handler's effects double when a message comes twice: {:?} after one run, {:?} after two",
            self.once,
            self.twice
        );
    }
}

/// Runs a handler twice for `payload`, as happens when the program crashes after the handler has ended and before its
/// transaction is committed. It compares what `observe` sees with the result of a single run.
///
/// `world` creates everything anew for each of the two cases: a workbench, the handlers, and whatever they act on.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use postroom::testing::{Workbench, handle_twice};
/// use postroom::{Ctx, Event, HandlerError, Handlers};
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced;
///
/// #[derive(Clone, Default)]
/// struct Mailbox(Arc<AtomicU32>);
///
/// // A mail that was sent cannot be rolled back.
/// async fn placed(ctx: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> {
///     ctx.state::<Mailbox>()?.0.fetch_add(1, SeqCst);
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let world = async || {
///     let mailbox = Mailbox::default();
///     Ok((Workbench::memory(), Handlers::new().on(placed).state(mailbox.clone()), mailbox))
/// };
/// let twice = handle_twice(&OrderPlaced, world, async |_, mailbox: &Mailbox| Ok(mailbox.0.load(SeqCst))).await?;
/// assert!(twice.doubled());
/// assert_eq!((twice.once, twice.twice), (1, 2));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub async fn handle_twice<B, P, W, T>(
    payload: &P,
    world: impl AsyncFn() -> Result<(Workbench<B>, Handlers<B>, W)>,
    observe: impl AsyncFn(&Workbench<B>, &W) -> Result<T>,
) -> Result<Twice<T>>
where
    B: Backend,
    P: Payload,
{
    // Both cases use the same message at the same time, so what the handler derives from its id and the clock is the
    // same.
    let id = MessageId::new();
    let (bench, handlers, rest) = world().await?;
    bench.outbox().enqueue(payload.outgoing().id(id)).await?;
    bench.clock().advance(LEASE);
    bench.drain(handlers).await?;
    let once = observe(&bench, &rest).await?;

    let (bench, handlers, rest) = world().await?;
    let handlers = handlers.checked()?;
    bench.outbox().enqueue(payload.outgoing().id(id)).await?;
    bench.handle_in_vain(id, &handlers).await?;
    bench.clock().advance(LEASE);
    bench.drain(handlers).await?;
    Ok(Twice { once, twice: observe(&bench, &rest).await? })
}

impl<B: Backend> Workbench<B> {
    /// Claims the message, runs its handler to the end and rolls its transaction back. The lease runs out later.
    async fn handle_in_vain(&self, id: MessageId, handlers: &Handlers<B>) -> Result<()> {
        let queue = self.outbox().queue();
        let claims = queue.claim(OwnerToken::new(), LEASE, BATCH_MAX).await?;
        let is_it = |claimed: &Claimed| claimed.message.as_ref().is_ok_and(|message| message.id() == id.to_string());
        let (ours, others): (Vec<_>, Vec<_>) = claims.claimed.into_iter().partition(is_it);
        let _ = queue.release(others.into_iter().map(|claimed| claimed.lease)).await?;
        let claimed = ours.into_iter().next().ok_or_else(|| Error::invalid("the message is not ready"))?;
        let message = claimed.message.map_err(Error::invalid)?;
        let entry = handlers.find(&message.topic);
        let entry = entry.ok_or_else(|| Error::invalid(format!("no handler for the topic {}", message.topic)))?;
        let mut ctx = Ctx::<B>::new(&self.store, LEASE, message, &handlers.state);
        let handled = match entry {
            Entry::Blocking(handler) => ctx.call_blocking(handler).await,
            Entry::Async(handler) => B::scope(&self.store, async { handler.run(&mut ctx).await }).await,
        };
        if let Some(tx) = ctx.tx {
            B::roll_back(tx).await;
        }
        handled.map_err(|failure| Error::invalid(format!("the handler failed: {failure}")))?;
        Ok(())
    }
}
