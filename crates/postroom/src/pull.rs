//! Messages that are fetched, handled outside this process, and settled by a token. What a worker does with an answer,
//! a failure and a lease that is lost is done here by the same code.

mod request;
mod token;

pub use request::PullRequest;
pub use token::LeaseToken;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::background::in_background;
use crate::clock::{Timestamp, monotonic};
use crate::error::{Error, ErrorKind, Result};
use crate::handler::{Backend, Ctx, HOLD_MAX, conclude};
use crate::message::{Message, OwnerToken};
use crate::queue::{ClaimRequest, Claimed, Lease, Queue, Settle, State, Verb};
use crate::store::{Filter, Record, Store};
use crate::telemetry::{self, Meters};
use crate::worker::{Outcome, WorkerOptions};
use crate::workqueue::WorkQueue;

/// So often somebody who waits looks without being woken, at first and at last.
const POLL: Duration = Duration::from_millis(500);
const POLL_MAX: Duration = Duration::from_secs(5);

/// Hands messages of one queue out to services that fetch them: a worker whose handlers are elsewhere.
///
/// Leave the same topics alone in the worker on that queue ([`WorkerOptions::leave`]), or it takes them too.
///
/// ```
/// use postroom::{Memory, MemoryStore, NewMessage, Outbox, Pull, PullRequest, Queue, State, Topics, WorkerOptions};
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
}

/// A message that was fetched.
///
/// ```
/// fn described(pulled: &postroom::Pulled) -> String {
///     format!("{} until {}: {}", pulled.message.topic, pulled.until, pulled.token)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// The right to settle it.
    pub token: LeaseToken,
    /// When that ends, by the database's clock, unless it is extended.
    pub until: Timestamp,
    /// What it holds.
    pub message: Message,
}

/// What a token stands for by now.
enum Found {
    Held(Lease, Box<Record>),
    /// It was acknowledged under this very token.
    Done,
    Lost,
}

impl<B: Backend> Pull<B> {
    /// For one queue of a store. Of the options it heeds when failed messages are tried again.
    pub fn new(store: B::Store, queue: Queue, options: WorkerOptions) -> Result<Self> {
        let queue = WorkQueue::new(Arc::new(store.clone()), queue);
        let meters = Arc::new(Meters::new(&queue));
        Ok(Self { store, queue, options: options.checked()?, meters })
    }

    /// Fetches messages; none when there are none after the wait. What a caller that gives up had fetched goes back.
    pub async fn claim(&self, request: &PullRequest) -> Result<Vec<Pulled>> {
        let until = monotonic() + request.wait;
        let mut listener = self.queue.wake().listen();
        let mut pause = POLL;
        loop {
            if !request.wait.is_zero() {
                listener.arm();
            }
            let (pulled, next_at) = self.take(request).await?;
            if !pulled.is_empty() || monotonic() >= until {
                return Ok(pulled);
            }
            let due = next_at.map(|at| at.since(self.queue.time_hint()) + Duration::from_millis(1));
            let look_at = monotonic() + due.unwrap_or(pause).min(pause);
            pause = (pause * 2).min(POLL_MAX);
            // Rung or not, it looks again.
            let _ = tokio::time::timeout_at(look_at.min(until).into(), listener.heard()).await;
        }
    }

    /// One claim, to its end: rows that are claimed for nobody would wait until their lease is over.
    async fn take(&self, request: &PullRequest) -> Result<(Vec<Pulled>, Option<Timestamp>)> {
        let claim = ClaimRequest::new(OwnerToken::new(), request.lease, request.limit)?.topics(request.topics.clone());
        let (queue, options, bytes_max) = (self.queue.clone(), self.options.clone(), request.bytes_max);
        let (answer, answered) = oneshot::channel();
        drop(in_background(async move {
            let taken = hand_out(&queue, claim, bytes_max, &options).await;
            if let Err(Ok((_, leases, _))) = answer.send(taken) {
                give_back(&queue, leases).await;
            }
        }));
        let closed = |_| Error::new(ErrorKind::Closed, "the runtime is shutting down");
        let (pulled, _, next_at) = answered.await.map_err(closed)??;
        Ok((pulled, next_at))
    }

    /// Done, with the handler's answer: it is kept, and goes to whoever waits for it, in one transaction. None when
    /// the lease is lost; the same ack again changes nothing.
    pub async fn ack(&self, token: &LeaseToken, answer: Option<String>) -> Result<Option<State>> {
        let (lease, record) = match self.find(token).await? {
            Found::Held(lease, record) => (lease, record),
            Found::Done => return Ok(Some(State::Done)),
            Found::Lost => return Ok(None),
        };
        let Ok(message) = record.message.clone() else {
            return self.settle(lease, &record, Outcome::Done { response: answer }).await;
        };
        let ctx = Ctx::<B>::new(&self.store, HOLD_MAX, Arc::new(message), &crate::handler::State::default());
        let outcome = conclude(ctx, self.queue.kind(), &lease, answer).await?;
        self.settle(lease, &record, outcome).await
    }

    /// Back in line: after `delay`, or as a worker would pause. Dead when its attempts are spent. What went wrong is
    /// kept with the message and not logged.
    pub async fn abandon(&self, token: &LeaseToken, error: &str, delay: Option<Duration>) -> Result<Option<State>> {
        let why = format!("the service that fetched it gave it back\n{error}");
        self.end(token, Outcome::Retry { after: delay, why: why.trim_end().into(), service: false }).await
    }

    /// Given up.
    pub async fn fail(&self, token: &LeaseToken, error: &str) -> Result<Option<State>> {
        let why = format!("the service that fetched it gave it up\n{error}");
        self.end(token, Outcome::Dead { why: why.trim_end().into() }).await
    }

    /// Makes leases last until `lease` from now; says of each whether it still held.
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

    async fn end(&self, token: &LeaseToken, outcome: Outcome) -> Result<Option<State>> {
        match self.find(token).await? {
            Found::Held(lease, record) => self.settle(lease, &record, outcome).await,
            Found::Done | Found::Lost => Ok(None),
        }
    }

    async fn find(&self, token: &LeaseToken) -> Result<Found> {
        let Some(record) = self.queue.list(Filter::one(token.seq)).await?.pop() else { return Ok(Found::Lost) };
        let was_ours = record.claim_no() == token.claim_no && record.processed_by() == Some(token.owner);
        if record.state() == State::Done && was_ours {
            return Ok(Found::Done);
        }
        let lease = record.lease().filter(|lease| record.state() == State::Leased && token.is_of(lease));
        Ok(lease.map_or(Found::Lost, |lease| Found::Held(lease, Box::new(record))))
    }

    async fn settle(&self, lease: Lease, record: &Record, outcome: Outcome) -> Result<Option<State>> {
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
        let max_attempts = record.message.as_ref().ok().and_then(|message| message.max_attempts);
        let Some(settle) = outcome.into_settle(lease, max_attempts, &self.options, now) else { return Ok(None) };
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

type Taken = (Vec<Pulled>, Vec<Lease>, Option<Timestamp>);

/// Claims, and gives back at once what is too much. What cannot be read is nobody's to handle: it is tried again, and
/// dead in the end.
async fn hand_out(queue: &WorkQueue, claim: ClaimRequest, bytes_max: usize, options: &WorkerOptions) -> Result<Taken> {
    let claims = queue.claim_as(claim).await?;
    let (mut pulled, mut leases, mut settles, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0_usize);
    for Claimed { lease, message } in claims.claimed {
        match message {
            Err(why) => {
                telemetry::unreadable(queue.store_name(), queue.kind(), &lease, &why);
                settles.extend(Outcome::retry(why).into_settle(lease, None, options, queue.time_hint()));
            }
            Ok(message) => {
                bytes = bytes.saturating_add(size_of(&message));
                if bytes > bytes_max && !pulled.is_empty() {
                    settles.push(Settle::release(lease));
                    continue;
                }
                pulled.push(Pulled { token: LeaseToken::from(&lease), until: lease.until(), message });
                leases.push(lease);
            }
        }
    }
    if let Err(error) = queue.settle(settles).await {
        telemetry::settle_failed(queue, 1, &error);
    }
    Ok((pulled, leases, claims.next_at))
}

fn size_of(message: &Message) -> usize {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    message.payload.len() + headers
}

async fn give_back(queue: &WorkQueue, leases: Vec<Lease>) {
    let count = leases.len();
    if let Err(error) = queue.release(leases).await {
        telemetry::settle_failed(queue, count, &error);
    }
}
