//! One store at play: verbs in, answers out as text that can be compared.

use std::time::Duration;

use postroom::clock::Timestamp;
use postroom::message::{ContentHash, OwnerToken};
use postroom::operator::{Filter, Lane, Operator, Record, Scope};
use postroom::queue::{Claimed, Lease, Queue, Settle, State, Topics, WorkQueue};
use postroom::store::Store;
use postroom::{ErrorKind, Inbox, InboxKey, Incoming, MessageId, NewMessage, Outbox};
use uuid::Uuid;

use super::draw::{Arrived, How, New, Op, Ruling, Which};

/// A store, the leases it has given out, and its rows in the order they came: numbers may have gaps.
pub(super) struct World {
    store: std::sync::Arc<dyn Store>,
    outbox: Outbox,
    inbox: Inbox,
    leases: [Vec<Lease>; 2],
    known: [Vec<i64>; 2],
}

impl World {
    pub(super) fn new(store: impl Store) -> Self {
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(store);
        let (outbox, inbox) = (Outbox::of(store.clone()), Inbox::of(store.clone()));
        Self { store, outbox, inbox, leases: Default::default(), known: Default::default() }
    }

    fn verbs(&self, queue: Queue) -> &WorkQueue {
        match queue {
            Queue::Outbox => self.outbox.queue(),
            Queue::Inbox => self.inbox.queue(),
        }
    }

    /// One of the last leases, whether it still holds or not.
    fn lease(&self, queue: Queue, back: usize) -> Option<Lease> {
        self.leases[at(queue)].iter().rev().nth(back).cloned()
    }

    fn time(&self, after: Option<i64>) -> Option<Timestamp> {
        let now = self.store.clock().now();
        after.map(|seconds| Timestamp::from_micros(now.as_micros() + seconds * 1_000_000))
    }

    /// Plays a verb and says what it answered.
    pub(super) async fn play(&mut self, op: &Op) -> anyhow::Result<String> {
        let answer = self.answer(op).await?;
        if !matches!(op, Op::Enqueue(_) | Op::See { .. } | Op::Put { .. }) {
            return Ok(answer);
        }
        for queue in [Queue::Outbox, Queue::Inbox] {
            let rows = self.verbs(queue).list(Filter::all()).await?;
            let last = self.known[at(queue)].last().copied().unwrap_or(0);
            self.known[at(queue)].extend(rows.iter().map(Record::seq).filter(|seq| *seq > last));
        }
        Ok(answer)
    }

    /// Workers look for expired messages all the time, also while the clock is behind. SQLite looks on from there.
    pub(super) async fn expire_all(&self) -> anyhow::Result<()> {
        for queue in [Queue::Outbox, Queue::Inbox] {
            self.verbs(queue).expire(1000).await?;
        }
        Ok(())
    }

    /// The rank of a row among those of its table, in the order they came.
    fn rank(&self, queue: Queue, seq: i64) -> usize {
        let known = &self.known[at(queue)];
        known.iter().position(|known| *known == seq).unwrap_or(known.len())
    }

    async fn enqueue(&self, news: &[New]) -> anyhow::Result<String> {
        let messages = news.iter().map(|new| self.outgoing(new)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(match self.outbox.enqueue_many(messages).await {
            Err(error) if error.kind() == ErrorKind::Duplicate => error.to_string(),
            stored => format!("{:?}", stored?),
        })
    }

    async fn answer(&mut self, op: &Op) -> anyhow::Result<String> {
        Ok(match op {
            Op::Advance(_) | Op::Jump { .. } => String::new(),
            Op::Rule { queue, scope, rule } => self.rule(*queue, scope, rule).await?,
            Op::Correct { queue } => format!("{:?}", self.verbs(*queue).correct_times().await?),
            Op::Enqueue(news) => self.enqueue(news).await?,
            Op::Claim { queue, owner, lease, batch } => self.claim(*queue, *owner, *lease, *batch).await?,
            Op::ClaimSome { queue, owner, lease, batch, topic, only } => {
                let topics = if *only { Topics::only([*topic])? } else { Topics::only([*topic])?.rest() };
                self.claim_some(*queue, *owner, (*lease, *batch), &topics).await?
            }
            Op::Settle { queue, settles } => {
                let settles = settles.iter().filter_map(|(back, how)| self.settle(*queue, *back, how));
                let settles = settles.collect::<postroom::Result<_>>()?;
                format!("{:?}", self.verbs(*queue).settle(settles).await?)
            }
            Op::Extend { queue, leases, lease } => {
                let leases: Vec<_> = leases.iter().filter_map(|back| self.lease(*queue, *back)).collect();
                format!("{:?}", self.verbs(*queue).extend(&leases, *lease).await?)
            }
            Op::Reap { queue, limit } => format!("{:?}", self.verbs(*queue).reap(*limit).await?),
            Op::Expire { queue, limit } => format!("{:?}", self.verbs(*queue).expire(*limit).await?),
            Op::ExpireDead { queue, limit } => format!("{:?}", self.verbs(*queue).expire_dead(*limit).await?),
            Op::Purge { queue, state, retention, limit } => {
                format!("{:?}", self.verbs(*queue).purge_state(*state, *retention, *limit).await?)
            }
            Op::Dismiss { queue, which } => {
                let dismissal = Operator::new("ada")?.because("by lot")?;
                format!("{:?}", self.verbs(*queue).dismiss(self.filter(*queue, which), dismissal).await?)
            }
            Op::Cancel(new) => format!("{:?}", self.outbox.cancel(self.outgoing(new)?.work_item_id()).await?),
            Op::CancelKey { key } => format!("{:?}", self.outbox.cancel_key(key).await?),
            Op::SweepKeys => format!("{}", self.store.sweep_keys(100).await.is_ok()),
            Op::CancelArrived { key } => format!("{:?}", self.inbox.cancel(&inbox_key(*key)?).await?),
            Op::CancelLane { queue, lane } => format!("{:?}", self.verbs(*queue).cancel_lane(lane).await?),
            Op::Revive { queue, which, dismissed, ttl } => {
                let filter = self.filter(*queue, which);
                let filter = if *dismissed { filter.state(State::Dismissed) } else { filter };
                format!("{:?}", self.verbs(*queue).revive(filter, *ttl).await?)
            }
            Op::Redrive { which, ttl } => {
                format!("{:?}", self.outbox.redrive(self.filter(Queue::Outbox, which), *ttl).await?)
            }
            Op::See { key, hash } => {
                let hash = hash.map(content_hash).transpose()?;
                format!("{:?}", self.store.see(inbox_key(*key)?, hash).await?)
            }
            Op::Put { key, arrived, first_wins } => {
                let incoming = self.incoming(*key, arrived)?;
                let arrival = match first_wins {
                    true => self.inbox.accept(incoming).await?,
                    false => self.inbox.enqueue(incoming).await?,
                };
                format!("{arrival:?}")
            }
            Op::Mark { key, mark } => self.mark(*key, *mark).await?,
            Op::Find { message, key } => {
                let found = self.outbox.find(Uuid::from_u128(*message)).await?;
                let known = self.inbox.get(&inbox_key(*key)?).await?;
                let outbox = found.iter().map(|record| self.told(Queue::Outbox, record));
                outbox.chain(known.iter().map(|record| self.told(Queue::Inbox, record))).collect()
            }
            Op::Maintain { interval } => self.store.take_maintenance(*interval).await?.to_string(),
            Op::Stats { queue } => {
                let backlog = self.store.backlog(*queue).await?;
                format!("{:?} {backlog} {}", self.verbs(*queue).stats().await?, self.lanes(*queue).await?)
            }
        })
    }

    /// What operators see of lanes, and where each message stands in its lane.
    async fn lanes(&self, queue: Queue) -> anyhow::Result<String> {
        let lanes = self.verbs(queue).lanes(10).await?;
        let told = |lane: &Lane| self.by_rank(queue, lane.first.seq, &format!("{lane:?}"));
        let deepest: Vec<_> = lanes.deepest.iter().map(told).collect();
        let blocked: Vec<_> = lanes.blocked.iter().map(told).collect();
        let mut places = Vec::new();
        for seq in &self.known[at(queue)] {
            let place = self.verbs(queue).lane_of(*seq).await?;
            places.push(place.map(|place| (place.ahead, place.lane.messages, told(&place.lane))));
        }
        Ok(format!("{} {} {deepest:?} {blocked:?} {places:?}", lanes.lanes, lanes.blocked_lanes))
    }

    async fn rule(&self, queue: Queue, scope: &Scope, rule: &Ruling) -> anyhow::Result<String> {
        let (verbs, ada) = (self.verbs(queue), Operator::new("ada")?);
        match rule {
            Ruling::Pause => drop(verbs.pause(scope.clone(), ada).await?),
            Ruling::Resume => drop(verbs.resume(scope.clone(), ada).await?),
            Ruling::Limit(limit) => verbs.limit(scope.clone(), *limit, ada).await?,
        }
        Ok(format!("{:?}", verbs.rules().await?))
    }

    async fn claim_some(
        &mut self,
        queue: Queue,
        owner: u128,
        (lease, batch): (Duration, usize),
        topics: &Topics,
    ) -> anyhow::Result<String> {
        let owner = OwnerToken::from_uuid(Uuid::from_u128(owner))?;
        let claims = self.verbs(queue).claim_topics(owner, lease, batch, topics).await?;
        let told: Vec<_> = claims.claimed.iter().map(|claimed| self.told_claim(queue, claimed)).collect();
        self.leases[at(queue)].extend(claims.claimed.into_iter().map(|claimed| claimed.lease));
        Ok(format!("{told:?}, next at {:?}", claims.next_at))
    }

    /// Takes every message of both queues and gives it back. Messages that no claim has taken follow one another by
    /// number; others by their time, which differs after the clock was turned back.
    pub(super) async fn look_at_all(&mut self) -> anyhow::Result<()> {
        for queue in [Queue::Outbox, Queue::Inbox] {
            let all = self.verbs(queue).claim(OwnerToken::new(), Duration::from_secs(1), 500).await?.claimed;
            let all: Vec<_> = all.into_iter().map(|claimed| Settle::release(claimed.lease)).collect();
            anyhow::ensure!(self.verbs(queue).settle(all).await?.lost == 0, "a lease was lost");
        }
        Ok(())
    }

    async fn claim(&mut self, queue: Queue, owner: u128, lease: Duration, batch: usize) -> anyhow::Result<String> {
        let owner = OwnerToken::from_uuid(Uuid::from_u128(owner))?;
        let claims = self.verbs(queue).claim(owner, lease, batch).await?;
        let told: Vec<_> = claims.claimed.iter().map(|claimed| self.told_claim(queue, claimed)).collect();
        self.leases[at(queue)].extend(claims.claimed.into_iter().map(|claimed| claimed.lease));
        Ok(format!("{told:?}, next at {:?}", claims.next_at))
    }

    async fn mark(&self, key: u8, mark: u8) -> anyhow::Result<String> {
        let key = inbox_key(key)?;
        let marked = match mark {
            0 => self.inbox.mark_processing(&key).await?,
            1 => self.inbox.mark_processed(&key).await?,
            _ => self.inbox.mark_dead(&key, "by hand").await?,
        };
        Ok(marked.to_string())
    }

    fn settle(&self, queue: Queue, back: usize, how: &How) -> Option<postroom::Result<Settle>> {
        let lease = self.lease(queue, back)?;
        Some(match how {
            How::Ack(response) => Ok(Settle::ack_with(lease, response.map(str::to_owned))),
            How::Abandon(delay, error) => Settle::abandon(lease, *delay, error),
            How::Postpone(delay, why) => Settle::postpone(lease, *delay, why),
            How::Fail(error) => Ok(Settle::fail(lease, error)),
            How::Release => Ok(Settle::release(lease)),
        })
    }

    fn outgoing(&self, new: &New) -> anyhow::Result<NewMessage> {
        let mut message = NewMessage::new(new.topic, "payload").id(MessageId::from_uuid(Uuid::from_u128(new.id))?);
        if let Some(destination) = new.destination {
            message = message.to(destination);
        }
        if let Some(due) = self.time(new.due_after) {
            message = message.due_at(due);
        }
        if let Some(ttl) = new.ttl {
            message = message.expires_after(ttl);
        }
        if let Some(attempts) = new.max_attempts {
            message = message.max_attempts(attempts);
        }
        if let Some(lane) = new.lane {
            message = message.lane(lane);
        }
        if let Some(unique) = &new.unique {
            message = message.unique(unique.clone());
        }
        Ok(message)
    }

    fn incoming(&self, key: u8, arrived: &Arrived) -> anyhow::Result<Incoming> {
        let mut incoming = Incoming::new(inbox_key(key)?, arrived.topic, arrived.payload);
        if let Some(hash) = arrived.hash {
            incoming = incoming.hash(content_hash(hash)?);
        }
        if let Some(due) = self.time(arrived.due_after) {
            incoming = incoming.due_at(due);
        }
        if let Some(ttl) = arrived.ttl {
            incoming = incoming.expires_after(ttl);
        }
        if let Some(attempts) = arrived.max_attempts {
            incoming = incoming.max_attempts(attempts);
        }
        if let Some(lane) = arrived.lane {
            incoming = incoming.lane(lane);
        }
        Ok(incoming)
    }

    /// Every row of both tables, with what went wrong with it.
    pub(super) async fn rows(&self) -> anyhow::Result<Vec<String>> {
        let mut rows = Vec::new();
        for queue in [Queue::Outbox, Queue::Inbox] {
            for record in self.verbs(queue).list(Filter::all()).await? {
                let failures = self.verbs(queue).failures(record.seq()).await?;
                rows.push(format!("{queue}: {} {failures:?}", self.told(queue, &record)));
            }
        }
        Ok(rows)
    }

    fn filter(&self, queue: Queue, which: &Which) -> Filter {
        let one = |rank: usize| Filter::one(self.known[at(queue)].get(rank).copied().unwrap_or(i64::MAX));
        let mut filter = which.row.map_or_else(|| Filter::all().limit(which.limit), one);
        if let Some(topic) = which.topic {
            filter = filter.topic(topic);
        }
        if let Some(party) = which.party {
            filter = filter.party(party);
        }
        filter
    }

    /// A record with everything in it, and the payload, which is not printed with it.
    fn told(&self, queue: Queue, record: &Record) -> String {
        let message = record.message().map(told_message);
        let dismissal = record.dismissal().map(|dismissal| (dismissal.who(), dismissal.why()));
        let told = format!("{record:?} visible at {:?}, {dismissal:?}, {message:?}", record.visible_at());
        self.by_rank(queue, record.seq(), &told)
    }

    fn told_claim(&self, queue: Queue, claimed: &Claimed) -> String {
        let message = claimed.message.as_deref().map(told_message);
        let told = format!("{:?} {:?} {message:?}", claimed.lease, claimed.message);
        self.by_rank(queue, claimed.lease.seq(), &told)
    }

    fn by_rank(&self, queue: Queue, seq: i64, told: &str) -> String {
        told.replacen(&format!("seq: {seq}"), &format!("row {}", self.rank(queue, seq)), 1)
    }
}

fn inbox_key(key: u8) -> postroom::Result<InboxKey> {
    InboxKey::new(format!("shop-{}", key % 2), (key / 2).to_string())
}

/// One of three hashes, of two algorithms.
fn content_hash(hash: u8) -> postroom::Result<ContentHash> {
    ContentHash::new(if hash == 2 { "md5" } else { "sha256" }, [hash])
}

fn at(queue: Queue) -> usize {
    usize::from(queue == Queue::Inbox)
}

fn told_message(message: &postroom::Message) -> String {
    let payload = (&message.payload, &message.headers, &message.correlation_id, message.due_at, message.expires_at);
    let counts = (message.created_at, message.attempts, message.max_attempts, &message.last_error, &message.lane);
    format!("{payload:?} {counts:?}")
}
