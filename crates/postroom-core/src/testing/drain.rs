//! Works until nothing is left. Retries and due times are reached by moving the clock, not by waiting.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Workbench;
use crate::message::{Message, Payload};
use crate::queue::{Queue, State, Topics};
use crate::store::{BoxFuture, Filter, Record, Store};
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::{Error, ErrorKind, Result};
use crate::work::delivery::{Delivery, Transport};
use crate::work::handler::{Backend, Handlers};
use crate::work::worker::{Retention, Worker, WorkerOptions};

/// How often the clock is moved before draining fails.
const JUMPS_MAX: usize = 10_000;
/// How long nothing may happen before draining fails.
const STALLED: Duration = Duration::from_secs(10);
/// More rows than any test has.
const ROWS_MAX: usize = 100_000;
const PAUSE: Duration = Duration::from_millis(1);

/// The result of draining: what happened to the messages.
///
/// ```
/// use postroom::testing::Workbench;
/// use postroom::{Handlers, Payload, Signal};
///
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64 }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let bench = Workbench::memory();
/// bench.outbox().enqueue(OrderApproved { order: 7 }.outgoing().to("billing")).await?;
/// let drained = bench.drain(Handlers::new()).await?;
/// assert_eq!(drained.sent_to("billing").len(), 1);
/// assert_eq!(drained.payloads::<OrderApproved>()?[0].order, 7);
/// assert!(drained.handled() == 0 && drained.dead().is_empty());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Drained {
    handled: u64,
    sent: Vec<Message>,
    dead: Vec<Record>,
    unhandled: Vec<Record>,
}

impl Drained {
    /// Returns how many messages were handled here.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the messages to other services, in the order they were sent. None of them left the test.
    pub fn sent(&self) -> &[Message] {
        &self.sent
    }

    /// Returns the messages to this service.
    pub fn sent_to(&self, service: &str) -> Vec<&Message> {
        self.sent.iter().filter(|message| message.destination() == Some(service)).collect()
    }

    /// Returns the payloads of this type that were sent to any service.
    pub fn payloads<P: Payload>(&self) -> Result<Vec<P>> {
        self.sent.iter().filter(|message| message.topic == P::TOPIC).map(Message::read).collect()
    }

    /// Returns all dead messages.
    pub fn dead(&self) -> &[Record] {
        &self.dead
    }

    /// Returns the messages without a handler. They are still ready.
    pub fn unhandled(&self) -> &[Record] {
        &self.unhandled
    }

    /// Checks that every message had a handler or was sent to another service.
    ///
    /// # Panics
    ///
    /// Panics when a message has no handler, and names the topics.
    ///
    /// ```
    /// # use postroom::testing::Workbench;
    /// # use postroom::Handlers;
    /// # use postroom::store::Memory;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let bench = Workbench::memory();
    /// bench.drain(Handlers::new()).await?.assert_all_handled();
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub fn assert_all_handled(&self) {
        let topics: BTreeSet<_> = self.unhandled.iter().filter_map(|row| row.message().ok()).map(topic).collect();
        assert!(topics.is_empty(), "no handler for {}", topics.into_iter().collect::<Vec<_>>().join(", "));
    }
}

fn topic(message: &Message) -> &str {
    &message.topic
}

impl<B: Backend> Workbench<B> {
    /// Handles the messages in the outbox and the inbox, and those that result from them, until nothing is left.
    ///
    /// Whenever nothing is ready, the clock is moved to the next due time or attempt, so there is no waiting. Messages
    /// to other services go to a transport that only records them. Messages without a handler stay where they are
    /// ([`Drained::unhandled`]). It fails if there is no end.
    pub async fn drain(&self, handlers: Handlers<B>) -> Result<Drained> {
        let handlers = handlers.checked()?;
        let (stop, notes) = (CancellationToken::new(), Notes::default());
        // Handled messages are kept however far the clock moves, because the test may ask for them.
        let mut options = WorkerOptions::default().poll(PAUSE).poll_max(PAUSE).retention(Retention::for_ever());
        if handlers.fallback_entry().is_none() {
            options = options.leave(&Topics::except(handlers.entries().map(|(topic, _)| topic))?);
        }
        let work = |queue: Queue| {
            let worker = match queue {
                Queue::Outbox => Worker::<B>::outbox(self.store.clone(), handlers.shared()).transport(notes.clone()),
                Queue::Inbox => Worker::inbox(self.store.clone(), handlers.shared()),
            };
            worker.options(options.clone()).run(stop.clone().cancelled_owned())
        };
        let before = self.done().await?;
        let watching = async {
            let watched = self.until_empty(&handlers).await;
            stop.cancel();
            watched
        };
        let (outbox, inbox, watched) = tokio::join!(work(Queue::Outbox), work(Queue::Inbox), watching);
        watched.and(outbox).and(inbox)?;
        let sent = notes.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let done = self.done().await?.saturating_sub(before);
        let mut dead = Vec::new();
        for queue in [self.outbox().queue(), self.inbox().queue()] {
            dead.extend(queue.list(Filter::all().state(State::Dead)).await?);
        }
        let unhandled = self.unhandled(&handlers).await?;
        Ok(Drained { handled: done.saturating_sub(sent.len() as u64), sent, dead, unhandled })
    }

    async fn done(&self) -> Result<u64> {
        Ok(self.outbox().queue().stats().await?.done + self.inbox().queue().stats().await?.done)
    }

    async fn until_empty(&self, handlers: &Handlers<B>) -> Result<()> {
        let (mut jumps, mut seen, mut since) = (0, Vec::new(), monotonic());
        loop {
            if self.is_empty(handlers).await? {
                return Ok(());
            }
            let waiting = self.waiting(handlers).await?;
            let next = waiting.iter().filter_map(Record::visible_at).min().unwrap_or_else(|| self.clock().now());
            if !waiting.is_empty() && waiting.iter().all(|row| row.state() == State::Ready) && next > self.clock().now()
            {
                jumps += 1;
                self.move_to(next);
            }
            let now = waiting.iter().map(|row| (row.seq(), row.claim_no())).collect();
            if std::mem::replace(&mut seen, now) != seen {
                since = monotonic();
            }
            if jumps > JUMPS_MAX || since.elapsed() > STALLED {
                return Err(no_end(&waiting));
            }
            tokio::time::sleep_until((monotonic() + PAUSE).into()).await;
        }
    }

    /// Returns whether nothing is ready except messages without a handler, and nothing moved from one queue to the
    /// other in between.
    async fn is_empty(&self, handlers: &Handlers<B>) -> Result<bool> {
        let before = self.done().await?;
        let waiting = self.store.backlog(Queue::Outbox).await? + self.store.backlog(Queue::Inbox).await?;
        let left = if waiting == 0 { 0 } else { self.unhandled(handlers).await?.len() as u64 };
        Ok(waiting == left && self.done().await? == before)
    }

    /// Returns the messages without a handler. No worker claims them, so they stay ready.
    async fn unhandled(&self, handlers: &Handlers<B>) -> Result<Vec<Record>> {
        let mut rows = Vec::new();
        for queue in [self.outbox().queue(), self.inbox().queue()] {
            rows.extend(queue.list(Filter::all().state(State::Ready).limit(ROWS_MAX)).await?);
        }
        rows.retain(|row| !is_handled(row, handlers));
        Ok(rows)
    }

    /// Returns what is ready or in progress. It is not exact, because rows change while they are listed.
    async fn waiting(&self, handlers: &Handlers<B>) -> Result<Vec<Record>> {
        let mut waiting = Vec::new();
        for queue in [self.outbox().queue(), self.inbox().queue()] {
            for state in [State::Ready, State::Leased] {
                waiting.extend(queue.list(Filter::all().state(state).limit(ROWS_MAX)).await?);
            }
        }
        waiting.retain(|row| is_handled(row, handlers));
        Ok(waiting)
    }

    fn move_to(&self, time: Timestamp) {
        self.clock().advance(time.since(self.clock().now()));
        for queue in [Queue::Outbox, Queue::Inbox] {
            self.store.wake(queue).ring();
        }
    }
}

/// Returns whether a handler or another service gets it. A worker marks a row dead that cannot be read.
fn is_handled<B: Backend>(row: &Record, handlers: &Handlers<B>) -> bool {
    let is_handled = |message: &Message| message.destination().is_some() || handlers.find(&message.topic).is_some();
    row.message().map_or(true, is_handled)
}

fn no_end(waiting: &[Record]) -> Error {
    let rows = waiting.iter().take(10).map(|row| {
        let topic = row.message().map_or("?", |message| message.topic.as_str());
        format!("\n  {topic}, {} attempts: {}", row.attempts(), row.last_error().unwrap_or("no error"))
    });
    let rows: String = rows.collect();
    Error::new(ErrorKind::Unavailable, format!("{} messages are still not done:{rows}", waiting.len()))
}

/// A transport that accepts and records every message.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Message>>>);

impl Transport for Notes {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        Box::pin(std::future::ready(Delivery::Accepted { response: None }))
    }
}
