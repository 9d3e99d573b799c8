//! Messages that are pulled, handled outside this process, and settled by a token. Answers, failures and lost leases
//! are handled by the same code as in a worker.

mod request;
mod take;
mod token;

pub use request::PullRequest;
pub use token::LeaseToken;

use std::sync::Arc;
use std::time::Duration;

use take::UnderWay;

use crate::mailbox::work_queue::WorkQueue;
use crate::message::Message;
use crate::queue::{Cause, Fault, Lease, Queue, State, Topics, Verb};
use crate::queue::{Outcome, Terms};
use crate::store::{Filter, Record, Store};
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::Result;
use crate::telemetry::{self, Meters};
use crate::work::handler::{Backend, Ctx, HOLD_MAX, ack_and_commit};
use crate::work::worker::WorkerOptions;

/// Gives messages of one queue to services that pull them, like a worker whose handlers are elsewhere.
///
/// Exclude the same topics from the worker on that queue ([`WorkerOptions::leave`]), or it claims them too.
///
/// ```
/// use postroom::{NewMessage, Outbox, WorkerOptions};
/// use postroom::queue::{Pull, PullRequest, Queue, State, Topics};
/// use postroom::store::{Memory, MemoryStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// Outbox::new(store.clone()).enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let pull = Pull::<Memory>::new(store, Queue::Outbox, WorkerOptions::default())?;
/// let request = PullRequest::new(Topics::only(["order.placed"])?);
/// for pulled in pull.claim(&request).await? {
///     println!("{}: {}", pulled.message.topic, pulled.message.payload);
///     assert_eq!(pull.ack(&pulled.token, None).await?, Some(State::Done));
/// }
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Pull<B: Backend> {
    store: B::Store,
    queue: WorkQueue,
    options: WorkerOptions,
    meters: Arc<Meters>,
    under_way: UnderWay,
}

/// A message that was pulled.
///
/// ```
/// fn described(pulled: &postroom::queue::Pulled) -> String {
///     format!("{} until {}: {}", pulled.message.topic, pulled.until, pulled.token)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// The right to settle it.
    pub token: LeaseToken,
    /// When the lease ends by the database's clock, unless it is extended.
    pub until: Timestamp,
    /// The message.
    pub message: Message,
}

/// The state of a token's lease.
enum Found {
    Held(Lease, Box<Record>),
    /// It was acknowledged under this very token.
    Done,
    Lost,
}

impl<B: Backend> Pull<B> {
    /// Creates a puller for one queue of a store. It uses these options: the retry policies, how often to look without
    /// a wake-up, and which messages a worker excludes ([`WorkerOptions::leave`]); if some are excluded, it settles
    /// only those.
    pub fn new(store: B::Store, queue: Queue, options: WorkerOptions) -> Result<Self> {
        let queue = WorkQueue::new(Arc::new(store.clone()), queue);
        let meters = Arc::new(Meters::new(queue.named()));
        Ok(Self { store, queue, options: options.checked()?, meters, under_way: UnderWay::new() })
    }

    /// Pulls messages; the result is empty if there are none after the wait. If the caller gives up, its messages go
    /// back.
    pub async fn claim(&self, request: &PullRequest) -> Result<Vec<Pulled>> {
        let until = monotonic() + request.wait;
        let mut listener = self.queue.wake().listen();
        let mut pause = self.options.poll;
        loop {
            if !request.wait.is_zero() {
                listener.arm();
            }
            let (pulled, next_at) = take::take(&self.queue, request, &self.options, &self.under_way).await?;
            if !pulled.is_empty() || monotonic() >= until {
                return Ok(pulled);
            }
            let due = next_at.map(|at| at.since(self.queue.time_hint()) + Duration::from_millis(1));
            let look_at = monotonic() + due.unwrap_or(pause).min(pause);
            pause = (pause * 2).min(self.options.poll_max);
            // It looks again, whether a wake-up came or not.
            let _ = tokio::time::timeout_at(look_at.min(until).into(), listener.heard()).await;
        }
    }

    /// Waits until the messages of callers that gave up are back in the queue. Call it before the program ends.
    pub async fn ended(&self) {
        self.under_way.ended().await;
    }

    /// Marks it done with the handler's answer, which is stored and sent to the waiting service in one transaction. It
    /// returns `None` if the lease is lost; repeating the same ack changes nothing.
    pub async fn ack(&self, token: &LeaseToken, answer: Option<String>) -> Result<Option<State>> {
        let (lease, record) = match self.find(token).await? {
            Found::Held(lease, record) => (lease, record),
            Found::Done => return Ok(Some(State::Done)),
            Found::Lost => return Ok(None),
        };
        let Ok(message) = record.message.clone() else {
            return self.settle(lease, &record, Outcome::Done { response: answer }).await;
        };
        let ctx = Ctx::<B>::new(&self.store, HOLD_MAX, Arc::new(message), &crate::work::handler::States::default());
        let outcome = ack_and_commit(ctx, self.queue.kind(), &lease, answer).await?;
        self.settle(lease, &record, outcome).await
    }

    /// Puts it back in the queue after `delay`, or after a worker's usual delay. It is dead if its attempts are used
    /// up. The error is stored with the message and not logged.
    pub async fn abandon(&self, token: &LeaseToken, error: &str, delay: Option<Duration>) -> Result<Option<State>> {
        let why = format!("the service that pulled it gave it back\n{error}");
        let fault = Fault::new(Cause::HandlerFailed, why.trim_end());
        self.end(token, Outcome::Failed(delay.into_iter().fold(fault, Fault::retry_after))).await
    }

    /// Marks it dead.
    pub async fn fail(&self, token: &LeaseToken, error: &str) -> Result<Option<State>> {
        let why = format!("the service that pulled it marked it dead\n{error}");
        self.end(token, Outcome::Failed(Fault::new(Cause::Refused, why.trim_end()).for_good())).await
    }

    /// Extends leases to `lease` from now, and returns for each whether it was still valid.
    pub async fn extend(&self, tokens: &[LeaseToken], lease: Duration) -> Result<Vec<bool>> {
        let now = self.queue.time_hint();
        let leases = tokens.iter().map(|token| Lease {
            seq: token.seq,
            owner: token.owner,
            claim_no: token.claim_no,
            until: now,
            attempts: 0,
            crashes: 0,
        });
        self.queue.extend(&leases.collect::<Vec<_>>(), lease).await
    }

    /// Returns for each whether its message was cancelled: then the work on it should stop.
    pub async fn asked_to_stop(&self, tokens: &[LeaseToken]) -> Result<Vec<bool>> {
        let stops = self.queue.stops().await?;
        let is_meant = |token: &LeaseToken| {
            stops.iter().any(|stop| stop.is_held && stop.seq == token.seq && stop.claim_no == token.claim_no)
        };
        Ok(tokens.iter().map(is_meant).collect())
    }

    async fn end(&self, token: &LeaseToken, outcome: Outcome) -> Result<Option<State>> {
        match self.find(token).await? {
            Found::Held(lease, record) => {
                // What was cancelled is not tried again.
                let is_cancelled = self.asked_to_stop(std::slice::from_ref(token)).await?.contains(&true);
                let state = self.settle(lease, &record, outcome).await?;
                Ok(state.map(|state| if is_cancelled { State::Dismissed } else { state }))
            }
            Found::Done | Found::Lost => Ok(None),
        }
    }

    async fn find(&self, token: &LeaseToken) -> Result<Found> {
        let Some(record) = self.queue.list(Filter::one(token.seq)).await?.pop() else { return Ok(Found::Lost) };
        let was_ours = record.claim_no() == token.claim_no && record.processed_by() == Some(token.owner);
        if record.state() == State::Done && was_ours {
            return Ok(Found::Done);
        }
        if !self.is_fetched(&record) {
            return Ok(Found::Lost);
        }
        let lease = record.lease().filter(|lease| record.state() == State::Leased && token.is_of(lease));
        Ok(lease.map_or(Found::Lost, |lease| Found::Held(lease, Box::new(record))))
    }

    /// Returns whether the message is one that is pulled here, as far as the options say so.
    fn is_fetched(&self, record: &Record) -> bool {
        let is_left = |handled: &Topics| {
            let message = record.message.as_ref();
            message.is_ok_and(|message| !handled.contains(&message.topic, message.destination()))
        };
        self.options.topics.as_ref().is_none_or(is_left)
    }

    async fn settle(&self, lease: Lease, record: &Record, outcome: Outcome) -> Result<Option<State>> {
        let state = self.settle_one(lease, record, outcome).await;
        // When a message leaves its lane, the next one has its turn.
        if record.message.as_ref().is_ok_and(|message| message.lane.is_some()) {
            self.queue.lanes_settled();
        }
        state
    }

    async fn settle_one(&self, lease: Lease, record: &Record, outcome: Outcome) -> Result<Option<State>> {
        let now = self.queue.time_hint();
        if let Ok(message) = &record.message {
            let took = record.last_attempt_at().map(|since| now.since(since)).unwrap_or_default();
            telemetry::handled(self.store.name(), self.queue.kind(), message, &outcome, &self.meters, took);
        }
        let settled_already = match outcome {
            Outcome::Settled => Some(Some(State::Done)),
            Outcome::Lost => Some(None),
            _ => None,
        };
        if let Some(state) = settled_already {
            return Ok(state);
        }
        let terms = || Terms::of(&self.options.policies, record.message.as_ref().ok(), now);
        let Some(settle) = outcome.into_settle(lease, terms) else { return Ok(None) };
        let usual = if matches!(settle.verb, Verb::Ack { .. }) { State::Done } else { State::Ready };
        let settled = self.queue.settle(vec![settle]).await?;
        Ok(match () {
            () if settled.applied == 0 => None,
            () if settled.dead > 0 => Some(State::Dead),
            () if settled.expired > 0 => Some(State::Expired),
            () => Some(usual),
        })
    }
}
