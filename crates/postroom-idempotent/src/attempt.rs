//! One delivery: its mark, the handler's transaction, and how both end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::{Idempotent, Marking, Once, Unhandled};
use postroom_core::message::{InboxKey, Incoming, Message};
use postroom_core::store::{HandledMark, HandledMarks, Store};
use postroom_core::support::clock::{Timestamp, monotonic};
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::support::task::in_background;
use postroom_core::telemetry;
use postroom_core::work::handler::{Backend, Ctx, HOLD_MAX, HandlerError, HandlerResult};

impl<B: Backend> Idempotent<B> {
    /// Runs `attempt` for the message, unless this handler has already processed it.
    pub(super) async fn once<R, E, F>(&self, incoming: &Incoming, attempt: F) -> Result<Once<R>, Unhandled<E>>
    where
        F: Future<Output = Result<Once<R>, Unhandled<E>>>,
    {
        if !self.core.options.enabled {
            return attempt.await;
        }
        let key = incoming.key();
        let mut turn = self.core.lines.turn(key).await;
        let once = match turn.is_handled() {
            true => Ok(Once::Duplicate),
            false => self.claimed(incoming, attempt).await,
        };
        if once.is_ok() {
            turn.handled();
        }
        match &once {
            Ok(Once::Duplicate) => telemetry::handled_before(self.core.store.name(), &self.core.handler, key),
            Err(Unhandled::Store(error)) => {
                telemetry::marking_broken(self.core.store.name(), &self.core.handler, key, error);
            }
            _ => {}
        }
        self.purge_sometimes();
        once
    }

    /// Marks the message first, if the options say so.
    async fn claimed<R, E, F>(&self, incoming: &Incoming, attempt: F) -> Result<Once<R>, Unhandled<E>>
    where
        F: Future<Output = Result<Once<R>, Unhandled<E>>>,
    {
        let Marking::BeforeHandling { release_claim_on_error } = self.core.options.marking else {
            return attempt.await;
        };
        let (key, topic) = (incoming.key(), incoming.topic.clone());
        let Some(marked_at) = self.core.store.put_mark(self.mark(key), topic).await? else {
            return Ok(Once::Duplicate);
        };
        let once = attempt.await;
        let is_undone = match &once {
            Ok(_) => false,
            Err(Unhandled::Handler(_)) => true,
            // It may have been committed after all, and then the mark must stay.
            Err(Unhandled::Store(error)) => error.kind() != ErrorKind::InDoubt,
        };
        if is_undone && release_claim_on_error {
            self.release(key, marked_at).await;
        }
        once
    }

    async fn release(&self, key: &InboxKey, marked_at: Timestamp) {
        if let Err(error) = self.core.store.remove_mark(self.mark(key), marked_at).await {
            telemetry::mark_kept(self.core.store.name(), &self.core.handler, key, &error);
        }
    }

    pub(super) fn mark(&self, key: &InboxKey) -> HandledMark {
        HandledMark::new(key.clone(), self.core.handler.clone())
    }

    /// Returns the handler's context, with the mark in its transaction, or `None` for a duplicate.
    pub(super) async fn enter(&self, message: Arc<Message>, key: &InboxKey) -> Result<Option<Ctx<B>>> {
        let mut ctx = Ctx::new(&self.core.store, HOLD_MAX, message.clone(), &self.state);
        if !self.core.options.enabled || self.core.options.marking != Marking::InTransaction {
            return Ok(Some(ctx));
        }
        let mut tx = B::begin(&self.core.store, HOLD_MAX).await?;
        let marked = B::mark(&mut tx, &self.mark(key), &message.topic).await;
        match marked {
            Ok(true) => {
                ctx.tx = Some(tx);
                Ok(Some(ctx))
            }
            Ok(false) => B::leave(tx).await.map(|()| None),
            Err(error) => {
                B::roll_back(tx).await;
                Err(error)
            }
        }
    }

    /// Runs the handler. A panic counts as a failure.
    pub(super) async fn call<R>(&self, handling: impl Future<Output = HandlerResult<R>> + Send) -> HandlerResult<R> {
        let handled = AssertUnwindSafe(B::scope(&self.core.store, handling)).catch_unwind().await;
        handled.unwrap_or_else(|panic| Err(HandlerError::panicked(panic.as_ref())))
    }

    /// Commits the handler's transaction.
    pub(super) async fn commit(&self, ctx: Ctx<B>) -> Result<()> {
        match ctx.tx {
            Some(tx) => B::commit(tx, None).await,
            None if self.core.options.enabled && self.core.options.marking == Marking::InTransaction => {
                Err(Error::new(ErrorKind::NotCommitted, "the transaction is gone"))
            }
            None => Ok(()),
        }
    }

    /// Deletes old marks from time to time, in the background.
    fn purge_sometimes(&self) {
        if self.core.purges.is_due(monotonic(), self.core.options.cleanup_interval) {
            let this = self.clone();
            drop(in_background(async move {
                if let Err(error) = this.purge().await {
                    telemetry::marks_not_purged(this.core.store.name(), &this.core.handler, &error);
                }
            }));
        }
    }
}
