//! The transaction: the message's row, the handler's effects and the answer are all stored together, or not at all.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tracing::Instrument;

use super::{Inner, Reply};
use crate::wire::envelope;
use postroom_core::message::{ANSWER_TO, IN_REPLY_TO, Incoming, Kind, Message, MessageId};
use postroom_core::queue::{Cause, Queue, Whose};
use postroom_core::store::{Admission, Arrival, PutMode, Store};
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::telemetry;
use postroom_core::work::handler::{
    Backend, Blocking, Ctx, Entry, Erased, HOLD_MAX, HandlerError, HandlerResult, Held, Received, admit,
    retry_conflicts,
};

impl<B: Backend> Inner<B> {
    /// Returns whether the database's own thread runs the handler. A blocking handler is finished there even if
    /// nobody waits.
    pub(super) fn is_handled_by_writer(&self, incoming: &Incoming) -> bool {
        let is_handled = incoming.kind != Kind::Response && !self.options.queued;
        is_handled && matches!(self.handlers.find(&incoming.topic), Some(Entry::Blocking(_)))
    }

    pub(super) async fn apply(&self, incoming: Incoming, is_answered: bool) -> Reply {
        if incoming.kind != Kind::Response && self.options.queued {
            return self.queue(incoming, is_answered).await;
        }
        let incoming = Arc::new(incoming);
        let result = match incoming.kind {
            Kind::Response => retry_conflicts(|| self.take_answer(&incoming)).await,
            _ => {
                let Some(handler) = self.handlers.find(&incoming.topic) else {
                    return Reply::no_handler(&incoming.topic);
                };
                retry_conflicts(|| self.attempt(&incoming, &handler)).await
            }
        };
        match result {
            Ok(Received::Handled(response)) => Reply::handled(response),
            Ok(Received::Not(admission)) => reply(admission),
            Ok(Received::Failed(failure)) => self.failed(&incoming, failure).await,
            Err(error) => self.database_failed(&incoming, &error),
        }
    }

    /// A permanent refusal is stored and repeated to everybody who sends the message again. Any other failure leaves
    /// no trace.
    async fn failed(&self, incoming: &Incoming, failure: HandlerError) -> Reply {
        telemetry::receive_failed(self.store.name(), incoming.key(), &incoming.topic, failure.why());
        let (cause, after) = (failure.cause(), failure.retry_delay());
        match cause.whose() {
            _ if failure.is_terminal() => match self.store.refuse(incoming.clone(), failure.into_why()).await {
                Ok(admission) => reply(admission),
                Err(error) => self.database_failed(incoming, &error),
            },
            Whose::Message => Reply { retry_after: after, ..Reply::failed("the handler failed") },
            Whose::Place if cause == Cause::NewerVersion => Reply::not_yet(&failure.into_why()),
            Whose::Place => Reply::later(after),
            Whose::Ours => Reply::of_database(&Error::new(ErrorKind::Unavailable, "the database is unreachable")),
        }
    }

    fn database_failed(&self, incoming: &Incoming, error: &Error) -> Reply {
        telemetry::receive_broken(self.store.name(), incoming.key(), error);
        Reply::of_database(error)
    }

    /// Puts the message in the inbox queue for the worker.
    async fn queue(&self, mut incoming: Incoming, is_answered: bool) -> Reply {
        if is_answered {
            let source = incoming.key().source().to_owned();
            incoming = incoming.header(ANSWER_TO, source);
        }
        match self.store.put(incoming.clone(), PutMode::FirstWins).await {
            Ok(Arrival::Known { differs: true, .. }) => Reply::differs(),
            Ok(arrival) => Reply::queued(arrival.is_duplicate()),
            Err(error) => self.database_failed(&incoming, &error),
        }
    }

    async fn attempt(&self, incoming: &Arc<Incoming>, handler: &Entry<B>) -> Result<Received> {
        match handler {
            Entry::Async(handler) => self.in_transaction(incoming, handler.as_ref()).await,
            Entry::Blocking(handler) => handler.clone().receive(&self.store, incoming, &self.handlers.state).await,
        }
    }

    /// Runs an async handler in the transaction that holds the message's row.
    async fn in_transaction(&self, incoming: &Incoming, handler: &dyn Erased<B>) -> Result<Received> {
        let Held { tx, lease, message } = match self.begin(incoming).await? {
            Ok(held) => held,
            Err(admission) => return Ok(Received::Not(admission)),
        };
        let mut ctx = Ctx::<B>::new(&self.store, HOLD_MAX, Arc::new(message), &self.handlers.state);
        ctx.tx = Some(tx);
        let span = telemetry::handle_span(self.store.name(), Queue::Inbox, &ctx.message);
        let handled = self.call(&mut ctx, handler).instrument(span).await;
        let Some(tx) = ctx.tx else { return Err(Error::new(ErrorKind::NotCommitted, "the transaction is gone")) };
        match handled {
            Ok(response) => {
                B::commit(tx, Some((Queue::Inbox, &lease, response.clone()))).await?;
                Ok(Received::Handled(response))
            }
            Err(failure) => {
                B::roll_back(tx).await;
                match failure.cause() {
                    Cause::DatabaseConflict => Err(Error::new(ErrorKind::NotCommitted, failure.into_why())),
                    _ => Ok(Received::Failed(failure)),
                }
            }
        }
    }

    async fn call(&self, ctx: &mut Ctx<B>, handler: &dyn Erased<B>) -> HandlerResult<Option<String>> {
        let (limit, cancelled) = (self.options.handler_timeout, ctx.cancelled.clone());
        let mut handling = pin!(AssertUnwindSafe(B::scope(&self.store, handler.run(ctx))).catch_unwind());
        let notice = limit / 10;
        let handled = match tokio::time::timeout(limit - notice, &mut handling).await {
            Ok(handled) => Ok(handled),
            Err(_) => {
                // A handler that listens for the cancellation has a moment to end cleanly.
                cancelled.cancel();
                tokio::time::timeout(notice, handling).await
            }
        };
        match handled {
            Ok(Ok(handled)) => handled,
            Ok(Err(panic)) => Err(HandlerError::panicked(panic.as_ref())),
            Err(_) => Err(HandlerError::retry(format_args!("the handler took longer than {limit:?}"))),
        }
    }

    async fn begin(&self, incoming: &Incoming) -> Result<std::result::Result<Held<B>, Admission>> {
        admit(&self.store, incoming, self.options.handler_timeout.saturating_mul(2)).await
    }

    /// Stores an answer with the message it answers. The sender of that message may be waiting for it.
    async fn take_answer(&self, incoming: &Incoming) -> Result<Received> {
        let Held { mut tx, lease, message } = match self.begin(incoming).await? {
            Ok(held) => held,
            Err(admission) => return Ok(Received::Not(admission)),
        };
        if let (Some(request), Some(from)) = (answered(&message), message.source()) {
            // The answer is stored as JSON, like an answer that comes at once.
            let kept = match envelope::Reply::of(&message.payload) {
                Ok(answer) => B::answer(&mut tx, request, from, answer.text()).await,
                Err(error) => Err(error),
            };
            if let Err(error) = kept {
                B::roll_back(tx).await;
                return Err(error);
            }
        }
        B::commit(tx, Some((Queue::Inbox, &lease, None))).await?;
        Ok(Received::Handled(None))
    }
}

/// Returns the id of the message that a Response answers.
fn answered(response: &Message) -> Option<MessageId> {
    let request = response.headers.get(IN_REPLY_TO).or(response.correlation_id.as_ref())?;
    request.parse().ok()
}

fn reply(admission: Admission) -> Reply {
    match admission {
        Admission::Known { response } => Reply::duplicate(response),
        Admission::Refused { why } => Reply::refused(&why),
        Admission::Differs => Reply::differs(),
        Admission::Busy => Reply::busy(),
        Admission::Expired => Reply::expired(),
        Admission::Held { .. } | Admission::Dead => Reply::dead(),
    }
}
