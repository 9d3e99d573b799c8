//! Who takes part in a storm: producers, workers, an operator, and whoever moves the clock.

use std::sync::Arc;
use std::time::Duration;

use postroom::clock::{ManualClock, Timestamp};
use postroom::message::OwnerToken;
use postroom::operator::{Filter, Operator, Scope};
use postroom::queue::{Lease, Queue, Settle, State, Topics, WorkQueue};
use postroom::store::Store;
use postroom::{Inbox, InboxKey, Incoming, MessageId, NewMessage, Outbox};

use super::book::{Book, Written, id_of};
use super::{PAUSE, rest, straggler, verbs};
use crate::case::Verdict;
use crate::harness::LEASE;

/// More messages than these do not wait at once: a book of them is read at each claim.
const WAITING_MAX: usize = 2000;
const TTL: Duration = Duration::from_secs(90);
/// If nothing ends for so long, nothing ever will.
const PATIENCE: Duration = Duration::from_secs(12);

/// What everybody has.
pub(super) struct Crew {
    pub(super) queue: Queue,
    pub(super) store: Arc<dyn Store>,
    pub(super) book: Arc<Book>,
    pub(super) clock: ManualClock,
    pub(super) random: fastrand::Rng,
}

impl Crew {
    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn verbs(&self) -> WorkQueue {
        verbs(&self.store, self.queue)
    }

    /// Runs something, or breaks it off after a moment: then nobody knows what it did.
    async fn perhaps<T>(&mut self, work: impl Future<Output = postroom::Result<T>>) -> anyhow::Result<Option<T>> {
        if !self.chance(4) {
            return Ok(Some(work.await?));
        }
        let moment = Duration::from_micros(self.random.u64(0..3000));
        Ok(tokio::time::timeout(moment, work).await.ok().transpose()?)
    }

    /// Moves the clock. Now and then all leases run out, and their holders do not know.
    pub(super) async fn upset(mut self) -> Verdict {
        while !self.is_over().await? {
            rest(Duration::from_millis(self.random.u64(5..20))).await;
            let leap = if self.chance(5) { LEASE + Duration::from_secs(3) } else { Duration::from_millis(700) };
            self.clock.advance(leap);
        }
        Ok(())
    }

    /// An operator and maintenance.
    pub(super) async fn keep_house(mut self) -> Verdict {
        let verbs = self.verbs();
        while !self.is_over().await? {
            rest(PAUSE * 5).await;
            let still = self.book.stands_still_for();
            anyhow::ensure!(
                still < PATIENCE,
                "{} messages are left behind: nothing ended for {still:?}",
                self.book.open()
            );
            let lane = Scope::lane(format!("lane-{}", self.random.u64(0..10)))?;
            if self.chance(20) {
                verbs.pause(lane, Operator::new("ada")?).await?;
            } else {
                verbs.resume(lane, Operator::new("ada")?).await?;
            }
            let _ = verbs.reap(50).await?;
            verbs.expire(50).await?;
            for record in verbs.list(Filter::all().state(State::Dead).limit(50)).await? {
                if self.chance(70) {
                    verbs.revive(Filter::one(record.seq()), None).await?;
                } else {
                    let ending = self.book.ends(&id_of(&record));
                    let operator = Operator::new("ada")?.because("by lot")?;
                    ending.settled(verbs.dismiss(Filter::one(record.seq()), operator).await?);
                }
            }
        }
        Ok(())
    }

    /// Nothing more comes, and hardly anything is left.
    async fn is_over(&self) -> anyhow::Result<bool> {
        if !self.book.is_closed() {
            return Ok(false);
        }
        let stats = self.verbs().stats().await?;
        Ok(stats.ready + stats.leased + stats.dead < 20)
    }
}

pub(super) struct Producer {
    crew: Crew,
    left: u64,
    lanes: u64,
}

impl Producer {
    pub(super) fn new(crew: Crew, messages: u64, lanes: u64) -> Self {
        Self { crew, left: messages, lanes }
    }

    pub(super) async fn run(mut self) -> Verdict {
        while self.left > 0 {
            while self.crew.book.open() > WAITING_MAX {
                rest(PAUSE).await;
            }
            let many = if self.crew.queue == Queue::Outbox { self.crew.random.u64(1..20).min(self.left) } else { 1 };
            self.left -= many;
            let messages: Vec<_> = (0..many).map(|_| self.message()).collect();
            let from = self.crew.book.moment();
            for (at, (id, lane, expires_at)) in messages.iter().enumerate() {
                let written = Written { from, to: u64::MAX, at };
                self.crew.book.writes(id.to_string(), lane.clone(), written, *expires_at);
            }
            if self.write(&messages).await? {
                let ids: Vec<_> = messages.iter().map(|(id, ..)| id.to_string()).collect();
                self.crew.book.wrote(ids.iter().map(String::as_str));
            }
        }
        Ok(())
    }

    /// Few lanes have many messages, and many have few.
    fn message(&mut self) -> (MessageId, String, Option<Timestamp>) {
        let random = &mut self.crew.random;
        let lanes = if random.u8(0..4) > 0 { self.lanes } else { (self.lanes / 10).max(1) };
        let lane = format!("lane-{}", random.u64(0..lanes));
        let expires_at = self.crew.chance(2).then(|| self.crew.clock.now().plus(TTL));
        (MessageId::new(), lane, expires_at)
    }

    /// Returns whether the messages are known to be stored.
    async fn write(&mut self, messages: &[(MessageId, String, Option<Timestamp>)]) -> anyhow::Result<bool> {
        let store = self.crew.store.clone();
        if self.crew.queue == Queue::Outbox {
            let mut new = Vec::new();
            for (id, lane, expires_at) in messages {
                let message = NewMessage::new("a", "{}").id(*id).lane(lane);
                new.push(if expires_at.is_some() { message.expires_after(TTL) } else { message });
            }
            if self.crew.chance(5) {
                // Somebody enqueues something in a transaction that takes its time, or is rolled back.
                new.push(NewMessage::new(straggler::TOPIC, self.crew.random.u64(0..self.lanes).to_string()));
            }
            let outbox = Outbox::of(store);
            return Ok(self.crew.perhaps(outbox.enqueue_many(new)).await?.is_some());
        }
        let (inbox, mut known) = (Inbox::of(store), true);
        for (id, lane, expires_at) in messages {
            let incoming = Incoming::new(InboxKey::new("shop", id.to_string())?, "a", "{}").lane(lane);
            let incoming = if expires_at.is_some() { incoming.expires_after(TTL) } else { incoming };
            known &= self.crew.perhaps(inbox.enqueue(incoming)).await?.is_some();
        }
        Ok(known)
    }
}

/// A message that somebody claimed.
struct Turn {
    id: String,
    lease: Lease,
    until: Timestamp,
}

/// Claims and settles.
pub(super) struct Worker {
    crew: Crew,
    /// It was paused with them, and goes on when others have them.
    stale: Vec<Turn>,
    /// What it claims: everything but what the worker with the handler does, as long as that one runs.
    topics: Option<Topics>,
}

impl Worker {
    pub(super) fn new(crew: Crew, topics: Option<Topics>) -> Self {
        Self { crew, stale: Vec::new(), topics }
    }

    pub(super) async fn run(mut self) -> Verdict {
        loop {
            let claimed = self.claim().await?;
            if claimed.is_empty() {
                if self.crew.is_over().await? {
                    return Ok(());
                }
                rest(PAUSE).await;
            }
            if self.crew.chance(20) {
                rest(PAUSE).await;
            }
            if self.crew.chance(3) {
                // It crashes.
                continue;
            }
            if self.crew.chance(3) {
                self.stale.extend(claimed);
                continue;
            }
            for turn in claimed {
                self.settle(turn).await?;
            }
            if self.crew.chance(5) {
                for turn in std::mem::take(&mut self.stale) {
                    self.ack(turn).await?;
                }
            }
        }
    }

    /// Ends what is ready, and returns how much that was.
    pub(super) async fn finish_some(&mut self) -> anyhow::Result<usize> {
        let claimed = self.claim().await?;
        let count = claimed.len();
        for turn in claimed {
            self.ack(turn).await?;
        }
        Ok(count)
    }

    async fn claim(&mut self) -> anyhow::Result<Vec<Turn>> {
        let (verbs, batch) = (self.crew.verbs(), self.crew.random.usize(1..30));
        // The lease may have begun a little later.
        let until = self.crew.clock.now().plus(LEASE);
        let owner = OwnerToken::new();
        let claims = match self.topics.clone() {
            Some(topics) => self.crew.perhaps(verbs.claim_topics(owner, LEASE, batch, &topics)).await?,
            None => self.crew.perhaps(verbs.claim(owner, LEASE, batch)).await?,
        };
        let mut turns = Vec::new();
        for claimed in claims.into_iter().flat_map(|claims| claims.claimed) {
            let id = claimed.message.map(|message| message.id()).map_err(anyhow::Error::msg)?;
            self.crew.book.claimed(&id, until);
            turns.push(Turn { id, lease: claimed.lease, until });
        }
        Ok(turns)
    }

    async fn settle(&mut self, turn: Turn) -> Verdict {
        let verbs = self.crew.verbs();
        let settle = match self.crew.random.u8(0..100) {
            0..80 => return self.ack(turn).await,
            80..90 => Settle::abandon(turn.lease, Duration::from_secs(2), "not now")?,
            90..94 => Settle::fail(turn.lease, "never"),
            _ => Settle::release(turn.lease),
        };
        self.crew.book.lets_go(&turn.id, turn.until);
        let _ = self.crew.perhaps(verbs.settle(vec![settle])).await?;
        Ok(())
    }

    async fn ack(&mut self, turn: Turn) -> Verdict {
        let (verbs, book) = (self.crew.verbs(), self.crew.book.clone());
        book.lets_go(&turn.id, turn.until);
        let ending = book.ends(&turn.id);
        if let Some(settled) = self.crew.perhaps(verbs.ack([turn.lease])).await? {
            ending.settled(settled.applied);
        }
        Ok(())
    }
}
