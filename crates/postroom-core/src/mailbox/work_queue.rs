//! The verbs of both queues. This layer checks the arguments, and reports what happened to logs and metrics.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::message::OwnerToken;
use crate::queue::retry::RetryPolicy;
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Settle, Settled, State, Topics};
use crate::store::{Audited, Deed, Fingerprint, Holding, Operation, Operator, Store, Wake};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};
use crate::telemetry;

/// The work-queue verbs of an outbox or inbox: claim, settle, and maintenance of the table.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::message::OwnerToken;
/// use postroom::operator::Filter;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let queue = outbox.queue();
/// let claims = queue.claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// let leases = claims.claimed.into_iter().map(|claimed| claimed.lease);
/// assert_eq!(queue.abandon(leases, "no stock", None).await?.applied, 1);
/// let waiting = queue.list(Filter::all()).await?;
/// assert_eq!((waiting[0].attempts(), waiting[0].last_error()), (1, Some("no stock")));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct WorkQueue {
    pub(super) store: Arc<dyn Store>,
    pub(super) queue: Queue,
    /// The operator who changes messages through it, if any.
    deed: Option<Box<Deed>>,
}

impl WorkQueue {
    pub(crate) fn new(store: Arc<dyn Store>, queue: Queue) -> Self {
        Self { store, queue, deed: None }
    }

    pub(crate) fn sibling(&self, queue: Queue) -> Self {
        Self { store: self.store.clone(), queue, deed: None }
    }

    /// Returns the same queue on behalf of an operator. Everything that is expired, deleted, dismissed or requeued
    /// through it becomes one entry of the audit trail, written in the transactions of the changes.
    #[must_use]
    pub fn by(&self, operator: Operator) -> Self {
        Self { deed: Some(Box::new(Deed::new(operator))), ..self.clone() }
    }

    /// Returns what operators did, newest first.
    pub async fn audit(&self, limit: usize) -> Result<Vec<Audited>> {
        self.store.audit(self.queue, at_least_one(limit)?).await
    }

    /// Changes messages by hand. Every change leaves an entry in the audit trail.
    pub(crate) async fn change(&self, operation: Operation) -> Result<u64> {
        let deed = self.deed.as_ref().map_or_else(|| Deed::unnamed(&operation), |deed| Deed::clone(deed));
        let span = telemetry::verb_span(operation.act().as_str(), self.named());
        self.store.change(self.queue, operation, deed).instrument(span).await
    }

    /// Returns what the operator does through it, if there is one.
    pub(super) fn deed(&self) -> Option<Deed> {
        self.deed.as_deref().cloned()
    }

    /// Returns which of the two queues it is.
    pub fn kind(&self) -> Queue {
        self.queue
    }

    /// Returns its name in logs and metrics.
    pub(crate) fn named(&self) -> telemetry::Named<'_> {
        telemetry::Named { store: self.store.name(), kind: self.queue }
    }

    /// Returns the name of its store.
    pub fn store_name(&self) -> &str {
        self.store.name()
    }

    pub(crate) fn wake(&self) -> &Wake {
        self.store.wake(self.queue)
    }

    pub(crate) fn lanes_settled(&self) {
        self.store.lanes_settled(self.queue);
    }

    pub(crate) fn holding(&self) -> Holding {
        self.store.holding(self.queue).clone()
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.store.fingerprint()
    }

    pub(crate) fn time_hint(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Claims up to `batch` ready messages for `owner`, each for `lease`.
    pub async fn claim(&self, owner: OwnerToken, lease: Duration, batch: usize) -> Result<Claims> {
        self.claim_either(ClaimRequest::new(owner, lease, batch)?).await
    }

    /// Claims only messages of these topics. It has to look through the other messages before them.
    pub async fn claim_topics(
        &self,
        owner: OwnerToken,
        lease: Duration,
        batch: usize,
        topics: &Topics,
    ) -> Result<Claims> {
        self.claim_either(ClaimRequest::new(owner, lease, batch)?.topics(topics.clone())).await
    }

    /// A suspect is claimed alone, and only if nothing else is ready.
    async fn claim_either(&self, request: ClaimRequest) -> Result<Claims> {
        let claims = self.claim_as(request.clone()).await?;
        if !claims.claimed.is_empty() {
            return Ok(claims);
        }
        let claim = self.store.claim(self.queue, request.suspects());
        let suspects = claim.instrument(telemetry::verb_span("claim", self.named())).await?;
        if !suspects.claimed.is_empty() || suspects.reaped.total() > 0 {
            telemetry::claimed(self.named(), &suspects);
        }
        let next_at = [claims.next_at, suspects.next_at].into_iter().flatten().min();
        let next_at = next_at.filter(|_| suspects.claimed.is_empty());
        Ok(Claims { claimed: suspects.claimed, next_at, reaped: claims.reaped.and(suspects.reaped) })
    }

    pub(crate) async fn claim_as(&self, request: ClaimRequest) -> Result<Claims> {
        let claims =
            self.store.claim(self.queue, request).instrument(telemetry::verb_span("claim", self.named())).await?;
        telemetry::claimed(self.named(), &claims);
        telemetry::clock_jumped(self.store.name(), self.store.clock());
        Ok(claims)
    }

    /// Marks messages as done. Lost leases are counted and change nothing.
    pub async fn ack(&self, leases: impl IntoIterator<Item = Lease>) -> Result<Settled> {
        self.settle(leases.into_iter().map(Settle::ack).collect()).await
    }

    /// Returns messages to the queue after `delay`, which must be longer than zero. Without it, the delay is 2, 4, 8 …
    /// 60 s, by the number of failed attempts.
    pub async fn abandon(
        &self,
        leases: impl IntoIterator<Item = Lease>,
        error: &str,
        delay: Option<Duration>,
    ) -> Result<Settled> {
        if delay == Some(Duration::ZERO) {
            return Err(Error::invalid(
                "the delay of an abandon must be longer than zero; leave it out for the default",
            ));
        }
        let policy = RetryPolicy::handlers();
        let settles = leases.into_iter().map(|lease| {
            let delay = delay.unwrap_or_else(|| policy.delay(lease.attempts().saturating_add(1)));
            Settle::abandon(lease, delay, error)
        });
        self.settle(settles.collect::<Result<_>>()?).await
    }

    /// Returns messages to the queue at once, as if they had not been claimed.
    pub async fn release(&self, leases: impl IntoIterator<Item = Lease>) -> Result<Settled> {
        self.settle(leases.into_iter().map(Settle::release).collect()).await
    }

    /// Marks messages dead.
    pub async fn fail(&self, leases: impl IntoIterator<Item = Lease>, error: &str) -> Result<Settled> {
        self.settle(leases.into_iter().map(|lease| Settle::fail(lease, error)).collect()).await
    }

    /// Ends leases, each in its own way, in one transaction.
    pub async fn settle(&self, settles: Vec<Settle>) -> Result<Settled> {
        self.settle_shared(Arc::new(settles)).await
    }

    pub(crate) async fn settle_shared(&self, settles: Arc<Vec<Settle>>) -> Result<Settled> {
        if settles.is_empty() {
            return Ok(Settled::default());
        }
        let settled = self
            .store
            .settle(self.queue, settles.clone())
            .instrument(telemetry::verb_span("settle", self.named()))
            .await?;
        telemetry::settled(self.named(), settled);
        Ok(settled)
    }

    /// Renews leases until `lease` from now. Returns for each lease whether it was still held.
    pub async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>> {
        crate::queue::check_lease(lease)?;
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        self.store
            .extend(self.queue, leases.to_vec(), lease)
            .instrument(telemetry::verb_span("extend", self.named()))
            .await
    }

    /// Returns up to `limit` messages whose lease ran out to the queue.
    pub async fn reap(&self, limit: usize) -> Result<Reaped> {
        let reaped = self
            .store
            .reap(self.queue, at_least_one(limit)?)
            .instrument(telemetry::verb_span("reap", self.named()))
            .await?;
        telemetry::reaped(self.named(), reaped);
        Ok(reaped)
    }

    /// Expires up to `limit` waiting messages that are past their time to live.
    pub async fn expire(&self, limit: usize) -> Result<u64> {
        let limit = at_least_one(limit)?;
        let expired = match self.deed {
            Some(_) => self.change(Operation::Expire(limit)).await?,
            None => {
                self.store.expire(self.queue, limit).instrument(telemetry::verb_span("expire", self.named())).await?
            }
        };
        telemetry::expired(self.named(), expired);
        Ok(expired)
    }

    /// Expires up to `limit` dead messages that are past their time to live. They cannot be sent or handled without a
    /// new one. Their content is not loaded.
    pub async fn expire_dead(&self, limit: usize) -> Result<u64> {
        let limit = at_least_one(limit)?;
        let expired = self
            .store
            .expire_dead(self.queue, limit)
            .instrument(telemetry::verb_span("expire_dead", self.named()))
            .await?;
        telemetry::expired(self.named(), expired);
        Ok(expired)
    }

    /// Deletes up to `limit` messages that were done longer than `retention` ago, and nothing else.
    pub async fn purge(&self, retention: Duration, limit: usize) -> Result<u64> {
        self.purge_state(State::Done, retention, limit).await
    }

    /// Deletes up to `limit` messages that have been done, dead, expired or dismissed for longer than `retention`, or
    /// that were only seen and not seen again since. Messages in other states are never deleted.
    ///
    /// The inbox takes a deleted message for new if it arrives again. Keep messages for longer than any sender retries.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use postroom::Outbox;
    /// # use postroom::store::MemoryStore;
    /// use postroom::queue::State;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (outbox, day) = (Outbox::new(MemoryStore::new()), Duration::from_secs(24 * 3600));
    /// outbox.queue().purge_state(State::Dead, 90 * day, 1000).await?;
    /// assert!(outbox.queue().purge_state(State::Ready, 90 * day, 1000).await.is_err());
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn purge_state(&self, state: State, retention: Duration, limit: usize) -> Result<u64> {
        if !State::PURGED.contains(&state) {
            return Err(Error::invalid(format!(
                "{state:?} messages are never deleted; only done, dead, expired, dismissed and seen ones are"
            )));
        }
        let limit = at_least_one(limit)?;
        let purge = || self.store.purge(self.queue, state, retention, limit);
        let purged = match (&self.deed, state) {
            (Some(_), State::Done) => self.change(Operation::Purge(retention, limit)).await?,
            _ => purge().instrument(telemetry::verb_span("purge", self.named())).await?,
        };
        telemetry::purged(self.named(), state, purged);
        Ok(purged)
    }

    /// Drops the payloads of some more messages of the inbox that were done longer than `retention` ago, for about
    /// `limit` messages. Returns how many payloads were dropped, or `None` if there are no such messages.
    ///
    /// The inbox still recognises these messages, and answers duplicates as before. Payloads of up to 1 kB stay.
    pub async fn drop_payloads(&self, retention: Duration, limit: usize) -> Result<Option<u64>> {
        if self.queue == Queue::Outbox {
            return Err(Error::invalid("only the inbox drops payloads: a message of the outbox may be redriven"));
        }
        let limit = at_least_one(limit)?;
        self.store.drop_payloads(retention, limit).instrument(telemetry::verb_span("drop_payloads", self.named())).await
    }

    pub(crate) async fn sweep_keys(&self, limit: usize) -> Result<u64> {
        self.store.sweep_keys(limit).instrument(telemetry::verb_span("sweep_keys", self.named())).await
    }

    /// Counts the waiting messages and those in progress in the outbox, or all messages in the inbox, looks for the
    /// deepest lane and for blocked ones, and updates the metrics. The worker that does the maintenance does this too.
    /// The size of a large inbox is estimated.
    pub async fn measure(&self) -> Result<()> {
        let rows = match self.queue {
            Queue::Outbox => self.store.backlog(self.queue).await?,
            Queue::Inbox => self.store.inbox_size().await?,
        };
        telemetry::backlog(self.named(), rows);
        if self.store.keeps_lanes() {
            telemetry::lanes(self.named(), &self.lanes(1).await?, self.store.clock().now());
        }
        Ok(())
    }

    /// Corrects messages that wait only because a clock was wrong when they were written, and returns how many. Due
    /// times that a caller set do not change. Workers do this when they start, and after the clock has jumped.
    pub async fn correct_times(&self) -> Result<u64> {
        let corrected =
            self.store.correct_times(self.queue).instrument(telemetry::verb_span("correct", self.named())).await?;
        telemetry::times_corrected(self.named(), corrected);
        Ok(corrected)
    }

    pub(crate) fn is_time_check_due(&self) -> bool {
        self.store.is_time_check_due(self.queue)
    }

    pub(crate) async fn take_maintenance(&self, interval: Duration) -> Result<bool> {
        self.store.take_maintenance(interval).await
    }
}

pub(super) fn at_least_one(limit: usize) -> Result<usize> {
    if limit == 0 {
        return Err(Error::invalid("the limit must be at least 1 row"));
    }
    Ok(limit)
}
