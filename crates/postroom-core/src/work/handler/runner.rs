//! Runs claimed messages through their handlers, for workers of the inbox, and for messages that the outbox handles
//! here.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tracing::Instrument;

use crate::message::{Message, answer_to};
use crate::queue::Outcome;
use crate::queue::{Cause, Claimed, Lease, Place, Queue, Whose};
use crate::store::{BoxFuture, Store};
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;
use crate::work::batch::{BatchRun, Process, Slots};
use crate::work::handler::again::retry;
use crate::work::handler::erased::{Entry, Erased};
use crate::work::handler::{Backend, Blocking, Ctx, HandlerError, Handlers};
use crate::work::places::{Known, Places};

pub(crate) struct Runner<B: Backend> {
    store: B::Store,
    queue: Queue,
    handlers: Arc<Handlers<B>>,
    places: Places,
    slots: Slots,
    /// Topics whose handlers held the transaction for too long. They get more time.
    slow: Mutex<HashSet<String>>,
}

/// What messages of a topic need. It is looked up once for those that follow one another.
struct Topic<B: Backend> {
    name: String,
    handler: Option<Entry<B>>,
    place: Arc<Known>,
}

impl<B: Backend> Runner<B> {
    pub(crate) fn new(store: B::Store, queue: Queue, handlers: Arc<Handlers<B>>, places: Places, slots: Slots) -> Self {
        Self { store, queue, handlers, places, slots, slow: Mutex::default() }
    }

    fn place(&self, place: &Place) -> Arc<Known> {
        let limits = self.slots.limits;
        let own = match place {
            Place::Topic(topic) => self.handlers.tuning.concurrency(topic),
            Place::Service(_) => None,
        };
        match own {
            Some(messages) => self.places.of(place, messages.min(self.slots.most), || limits.concurrency(messages)),
            None => self.places.of(place, self.slots.share, || limits),
        }
    }

    async fn run_one(
        &self,
        lease: Lease,
        message: Arc<Message>,
        (handler, place): (Arc<dyn Erased<B>>, Arc<Known>),
        run: &BatchRun,
    ) {
        let told = run.told(&lease);
        let endpoint = self.slots.endpoints.slots(&message.topic);
        // Acquire the slots of the topic and the endpoint first, so that slow handlers take no slots from the others.
        let waiting = async {
            let topic = place.slots().acquire().await;
            let endpoint = OptionFuture::from(endpoint.as_ref().map(|endpoint| endpoint.acquire())).await;
            (topic, endpoint, self.slots.all.acquire().await)
        };
        let permits = tokio::select! {
            biased;
            () = run.over(&told) => return run.report(lease, Outcome::Release),
            permits = waiting => permits,
        };
        // The topic may be held since the message was claimed; then it goes back to the queue.
        if !run.enter(&lease, &place) {
            return run.report(lease, Outcome::Release);
        }
        telemetry::handling(self.store.name(), self.queue, &message);
        let started = monotonic();
        let span = telemetry::handle_span(self.store.name(), self.queue, &message);
        let outcome = self.call(&lease, message.clone(), handler.as_ref(), run).instrument(span).await;
        drop(permits);
        telemetry::handled(self.store.name(), self.queue, &message, &outcome, &run.meters, started.elapsed());
        run.report(lease, outcome);
    }

    fn topic(&self, message: &Message) -> Topic<B> {
        let (name, place) = (message.topic.clone(), self.place(&Place::of(message)));
        Topic { handler: self.handlers.find(&name), name, place }
    }

    async fn call(&self, lease: &Lease, message: Arc<Message>, handler: &dyn Erased<B>, run: &BatchRun) -> Outcome {
        // A deadlock, a broken connection, or another job that failed the shared commit is not the message's failure.
        // If it happens repeatedly, it may be the message's failure after all.
        let attempt = || self.attempt(lease, message.clone(), handler, run);
        let tried = retry(attempt, |error, _| {
            telemetry::handled_again(self.store.name(), self.queue, &message, error);
            true
        });
        tried.await.unwrap_or_else(|error| Outcome::of_database(&error))
    }

    /// Runs the handler once. An error comes from the database, not from the handler.
    async fn attempt(
        &self,
        lease: &Lease,
        message: Arc<Message>,
        handler: &dyn Erased<B>,
        run: &BatchRun,
    ) -> Result<Outcome> {
        let cancelled = run.told(lease);
        let hold_max = self.hold_max(&message.topic, run.lease);
        let mut ctx = Ctx::<B>::new(&self.store, hold_max, message.clone(), &self.handlers.state);
        ctx.cancelled = cancelled.clone();
        let handled = {
            let handling = B::scope(&self.store, async { handler.run(&mut ctx).await });
            let mut handling = pin!(AssertUnwindSafe(handling).catch_unwind());
            tokio::select! {
                handled = &mut handling => Some(handled),
                // A handler that listens for the token has a moment to finish. If it is only asked to stop, it may take
                // its time.
                () = run.until_lost(lease, &cancelled) => tokio::time::timeout(run.notice(), handling).await.ok(),
            }
        };
        let overran = ctx.tx.as_ref().is_some_and(B::overran);
        if overran {
            self.is_slow_from_now_on(&message.topic);
        }
        let failure = match handled {
            // The handler may have been in the middle of a statement, so the connection cannot be reused. Dropping
            // closes it.
            None => return Ok(Outcome::Release),
            Some(Ok(Err(error))) => error,
            Some(Err(panic)) => HandlerError::panicked(panic.as_ref()),
            Some(Ok(Ok(response))) => {
                let concluded = ack_and_commit(ctx, self.queue, lease, response).await;
                if concluded.is_err() {
                    // The transaction may have been held for too long. More time next time does no harm.
                    self.is_slow_from_now_on(&message.topic);
                }
                return concluded;
            }
        };
        let is_undone = match ctx.tx {
            Some(tx) => B::roll_back(tx).await,
            None => true,
        };
        let (cause, has_said_when) = (failure.cause(), failure.retry_delay().is_some());
        match cause.whose() {
            _ if failure.is_terminal() => Ok(failure.into()),
            // It ended because it was told to. That is no failure of the message.
            Whose::Message | Whose::Place if cancelled.is_cancelled() => Ok(Outcome::Release),
            Whose::Ours if cause == Cause::DatabaseConflict && !overran => {
                Err(Error::new(ErrorKind::NotCommitted, failure.into_why()))
            }
            Whose::Place => Ok(failure.into()),
            _ if is_undone || has_said_when => Ok(failure.into()),
            _ => Err(Error::new(ErrorKind::NotCommitted, failure.into_why())),
        }
    }

    /// A missing handler is normal during a rolling deploy: the topic is held until somebody handles it.
    fn nobody_handles(&self, lease: Lease, message: &Message, place: &Arc<Known>, run: &BatchRun) {
        if !run.enter(&lease, place) {
            return run.report(lease, Outcome::Release);
        }
        telemetry::no_handler(self.store.name(), self.queue, message);
        run.report(lease, Outcome::failed(Cause::NoHandler, format!("no handler for the topic {}", message.topic)));
    }

    fn is_slow_from_now_on(&self, topic: &str) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned());
    }

    /// Limits how long an async handler keeps everybody else from writing to an embedded database.
    fn hold_max(&self, topic: &str, lease: Duration) -> Duration {
        let is_slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner).contains(topic);
        if is_slow { lease / 3 } else { (lease / 3).min(Duration::from_secs(1)) }
    }
}

impl<B: Backend> Process for Runner<B> {
    fn slots(&self, place: &Place) -> usize {
        self.place(place).permits()
    }

    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: BatchRun) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut waiting = FuturesUnordered::new();
            let mut blocking = Vec::new();
            let mut last: Option<Topic<B>> = None;
            for claimed in batch {
                let message = match claimed.message {
                    Ok(message) => message,
                    Err(why) => {
                        telemetry::unreadable(self.store.name(), self.queue, &claimed.lease, &why);
                        run.report(claimed.lease, Outcome::failed(Cause::Unreadable, why));
                        continue;
                    }
                };
                let topic = last.take().filter(|last| last.name == message.topic);
                let topic = last.insert(topic.unwrap_or_else(|| self.topic(&message)));
                match (&topic.handler, &topic.place) {
                    (None, place) => self.nobody_handles(claimed.lease, &message, place, &run),
                    (Some(Entry::Async(handler)), place) => {
                        let by = (handler.clone(), place.clone());
                        waiting.push(self.run_one(claimed.lease, message, by, &run));
                    }
                    (Some(Entry::Blocking(_)), place) if !run.enter(&claimed.lease, place) => {
                        run.report(claimed.lease, Outcome::Release);
                    }
                    (Some(Entry::Blocking(handler)), _) => {
                        blocking.push((Claimed { lease: claimed.lease, message: Ok(message) }, handler.clone()));
                    }
                }
            }
            let state = &self.handlers.state;
            let blocking = async {
                if !blocking.is_empty() {
                    // They run one after the other, so all of them take one slot.
                    let _permit = tokio::select! {
                        permit = self.slots.all.acquire() => permit.ok(),
                        () = run.stop.cancelled() => None,
                    };
                    B::Blocking::run_all(&self.store, self.queue, blocking, state, &run).await;
                }
            };
            tokio::join!(blocking, async { while waiting.next().await.is_some() {} });
        })
    }
}

/// Acknowledges a message that was handled. The answer is sent to the service that waits for it and stored with the
/// message, in the handler's transaction.
pub(crate) async fn ack_and_commit<B: Backend>(
    mut ctx: Ctx<B>,
    queue: Queue,
    lease: &Lease,
    response: Option<String>,
) -> Result<Outcome> {
    let message = ctx.message.clone();
    if let Some(answer) = answer_to(&message, response.as_deref()) {
        ctx.enqueue(answer).await?;
    }
    // Without a transaction, the ack can share the transaction of a batch.
    let Some(tx) = ctx.tx else { return Ok(Outcome::Done { response }) };
    match B::commit(tx, Some((queue, lease, response))).await {
        Ok(()) => Ok(Outcome::Settled),
        Err(error) if error.kind() == ErrorKind::LeaseLost => Ok(Outcome::Lost),
        Err(error) => Err(error),
    }
}
