//! The two queues seen alike: a message for either, and the few words every case needs.

use std::time::Duration;

use anyhow::{Context, bail};
use postroom::clock::Timestamp;
use postroom::message::OwnerToken;
use postroom::operator::{Filter, Record};
use postroom::queue::{Claimed, Lease, Queue, Settle, State, WorkQueue};
use postroom::{InboxKey, Incoming, MessageId, NewMessage};

use crate::harness::{Harness, LEASE};

/// A message for either queue.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: String,
    /// Not before this time.
    pub due_at: Option<Timestamp>,
    /// How long it lives.
    pub ttl: Option<Duration>,
    /// Dead at this failed attempt.
    pub max_attempts: Option<u32>,
    /// Its lane.
    pub lane: Option<String>,
    /// Its id in either queue.
    pub id: MessageId,
}

impl Draft {
    /// An empty object under `topic`.
    pub fn new(topic: &str) -> Self {
        let (topic, payload) = (topic.into(), "{}".into());
        Self { topic, payload, due_at: None, ttl: None, max_attempts: None, lane: None, id: MessageId::new() }
    }

    /// With this payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Not before this time.
    #[must_use]
    pub fn due_at(mut self, time: Timestamp) -> Self {
        self.due_at = Some(time);
        self
    }

    /// How long it lives.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Dead at this failed attempt.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// In this lane.
    #[must_use]
    pub fn lane(mut self, lane: &str) -> Self {
        self.lane = Some(lane.into());
        self
    }

    /// As a message for the outbox.
    pub fn outgoing(&self) -> NewMessage {
        let mut message = NewMessage::new(&self.topic, &self.payload).id(self.id);
        message = message.lane(self.lane.as_deref().unwrap_or_default());
        message = self.due_at.map_or_else(|| message.clone(), |due| message.clone().due_at(due));
        message = self.ttl.map_or_else(|| message.clone(), |ttl| message.clone().expires_after(ttl));
        self.max_attempts.map_or_else(|| message.clone(), |attempts| message.clone().max_attempts(attempts))
    }

    /// Its key in the inbox.
    pub fn key(&self) -> anyhow::Result<InboxKey> {
        Ok(InboxKey::new("shop", self.id.to_string())?)
    }

    /// As a message that arrived.
    pub fn incoming(&self) -> anyhow::Result<Incoming> {
        let mut message = Incoming::new(self.key()?, &self.topic, &self.payload);
        message = message.lane(self.lane.as_deref().unwrap_or_default());
        message = self.due_at.map_or_else(|| message.clone(), |due| message.clone().due_at(due));
        message = self.ttl.map_or_else(|| message.clone(), |ttl| message.clone().expires_after(ttl));
        Ok(self.max_attempts.map_or_else(|| message.clone(), |attempts| message.clone().max_attempts(attempts)))
    }
}

/// One of the two queues, with the few words every case needs.
#[derive(Clone, Copy, Debug)]
pub struct Side<'h> {
    harness: &'h Harness,
    /// Which one.
    pub queue: Queue,
}

impl<'h> Side<'h> {
    pub(crate) fn new(harness: &'h Harness, queue: Queue) -> Self {
        Self { harness, queue }
    }

    /// Its verbs.
    pub fn verbs(&self) -> &WorkQueue {
        match self.queue {
            Queue::Outbox => self.harness.outbox.queue(),
            Queue::Inbox => self.harness.inbox.queue(),
        }
    }

    /// Enqueues an empty object; returns its row's number.
    pub async fn add(&self, topic: &str) -> anyhow::Result<i64> {
        self.put(&Draft::new(topic)).await
    }

    /// Enqueues a message; returns its row's number.
    pub async fn put(&self, draft: &Draft) -> anyhow::Result<i64> {
        let found = match self.queue {
            Queue::Outbox => {
                self.harness.outbox.enqueue(draft.outgoing()).await?;
                self.harness.outbox.find(draft.id.as_uuid()).await?.pop()
            }
            Queue::Inbox => {
                self.harness.inbox.enqueue(draft.incoming()?).await?;
                self.harness.inbox.get(&draft.key()?).await?
            }
        };
        Ok(found.context("what was enqueued is not there")?.seq())
    }

    /// Enqueues this many messages at once.
    pub async fn add_many(&self, topic: &str, count: usize) -> anyhow::Result<()> {
        match self.queue {
            Queue::Outbox => {
                let messages: Vec<_> = (0..count).map(|_| NewMessage::new(topic, "{}")).collect();
                self.harness.outbox.enqueue_many(messages).await?;
            }
            Queue::Inbox => {
                for _ in 0..count {
                    self.harness.inbox.enqueue(Draft::new(topic).incoming()?).await?;
                }
            }
        }
        Ok(())
    }

    /// Claims up to `batch` rows for a new owner.
    pub async fn claim(&self, batch: usize) -> anyhow::Result<Vec<Claimed>> {
        Ok(self.verbs().claim(OwnerToken::new(), LEASE, batch).await?.claimed)
    }

    /// Claims the one row that is ready.
    pub async fn claim_one(&self) -> anyhow::Result<Lease> {
        let mut claimed = self.claim(10).await?;
        match (claimed.pop(), claimed.len()) {
            (Some(claimed), 0) => Ok(claimed.lease),
            (last, more) => bail!("{} rows were claimed, not one", more + usize::from(last.is_some())),
        }
    }

    /// Enqueues a message and claims it.
    pub async fn leased(&self, topic: &str) -> anyhow::Result<Lease> {
        self.add(topic).await?;
        self.claim_one().await
    }

    /// Settles one lease, which must still hold.
    pub async fn settle(&self, settle: Settle) -> anyhow::Result<()> {
        let settled = self.verbs().settle(vec![settle]).await?;
        anyhow::ensure!((settled.applied, settled.lost) == (1, 0), "the lease did not hold: {settled:?}");
        Ok(())
    }

    /// Done.
    pub async fn ack(&self, lease: Lease) -> anyhow::Result<()> {
        self.settle(Settle::ack(lease)).await
    }

    /// Puts it back in the queue after a second.
    pub async fn abandon(&self, lease: Lease, error: &str) -> anyhow::Result<()> {
        self.settle(Settle::abandon(lease, Duration::from_secs(1), error)?).await
    }

    /// Dead.
    pub async fn fail(&self, lease: Lease, error: &str) -> anyhow::Result<()> {
        self.settle(Settle::fail(lease, error)).await
    }

    /// Puts it back in the queue at once.
    pub async fn release(&self, lease: Lease) -> anyhow::Result<()> {
        self.settle(Settle::release(lease)).await
    }

    /// A row, as an operator sees it.
    pub async fn record(&self, seq: i64) -> anyhow::Result<Record> {
        let found = self.verbs().list(Filter::one(seq)).await?.pop();
        found.with_context(|| format!("row {seq} of the {} is gone", self.queue))
    }

    /// Where a row stands.
    pub async fn state(&self, seq: i64) -> anyhow::Result<State> {
        Ok(self.record(seq).await?.state())
    }

    /// How many rows there are.
    pub async fn rows(&self) -> anyhow::Result<u64> {
        Ok(self.verbs().stats().await?.total())
    }
}
