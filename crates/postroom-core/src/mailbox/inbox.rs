//! The inbox: an incoming message is identified by source and id, and applied once.

use std::sync::Arc;

use tracing::Instrument;

use crate::mailbox::work_queue::WorkQueue;
use crate::message::{ContentHash, InboxKey, Incoming, error_text};
use crate::queue::{Lease, Queue};
use crate::sql::{BlockingTx, Done, Statement, Tx};
use crate::store::{Arrival, Cancelled, Identity, ManualMove, PutMode, Record, Store, Target};
use crate::support::error::Result;
use crate::telemetry;

/// The inbox of a store. Cheap to clone.
///
/// ```
/// use postroom::{Inbox, InboxKey, Incoming};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let inbox = Inbox::new(MemoryStore::new());
/// let incoming = Incoming::new(InboxKey::new("stripe", "evt_1")?, "payment.received", "{}");
/// assert!(inbox.accept(incoming.clone()).await?.is_new());
/// assert!(inbox.accept(incoming).await?.is_duplicate(), "the provider sent it again");
/// assert_eq!(inbox.queue().stats().await?.ready, 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Inbox {
    store: Arc<dyn Store>,
    queue: WorkQueue,
}

impl Inbox {
    /// Creates the inbox of `store`.
    pub fn new(store: impl Store) -> Self {
        Self::of(Arc::new(store))
    }

    /// Creates the inbox of a shared store.
    pub fn of(store: Arc<dyn Store>) -> Self {
        let queue = WorkQueue::new(store.clone(), Queue::Inbox);
        Self { store, queue }
    }

    /// Returns the work-queue verbs: claim, ack, abandon, fail and the rest.
    pub fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Returns whether the message was handled before. A new message is recorded as seen.
    pub async fn already_processed(&self, key: &InboxKey) -> Result<bool> {
        self.already_processed_hash(key, None::<ContentHash>).await
    }

    /// Does the same with a hash of the content. If it differs from the first hash, a warning is logged and nothing
    /// changes. Hashes of different algorithms are not compared.
    pub async fn already_processed_hash(&self, key: &InboxKey, hash: Option<impl Into<ContentHash>>) -> Result<bool> {
        let sighting = self.store.see(key.clone(), hash.map(Into::into)).await?;
        telemetry::seen(self.queue.named(), key, sighting);
        Ok(sighting.done)
    }

    /// Records that a seen message is being handled outside the queue, and counts the attempt. Each further call counts
    /// the next attempt. Returns false if the message is in the queue, finished or unknown.
    ///
    /// The caller decides when a message that keeps failing is dead:
    ///
    /// ```
    /// # use postroom::{Inbox, InboxKey};
    /// # use postroom::queue::State;
    /// # use postroom::store::MemoryStore;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (inbox, key) = (Inbox::new(MemoryStore::new()), InboxKey::new("stripe", "evt_1")?);
    /// # async fn handle() -> Result<(), &'static str> { Err("no such order") }
    /// # for _ in 0..5 {
    /// // The same message, each time it is delivered:
    /// if !inbox.already_processed(&key).await? && inbox.mark_processing(&key).await? {
    ///     if handle().await.is_ok() {
    ///         inbox.mark_processed(&key).await?;
    ///     } else if inbox.get(&key).await?.is_some_and(|row| row.attempts() >= 3) {
    ///         inbox.mark_dead(&key, "it failed three times").await?;
    ///     }
    /// }
    /// # }
    /// # let row = inbox.get(&key).await?.unwrap();
    /// # assert_eq!((row.state(), row.attempts()), (State::Dead, 3));
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn mark_processing(&self, key: &InboxKey) -> Result<bool> {
        self.store.mark(key.clone(), ManualMove::Processing).await
    }

    /// Records that a message was handled, whatever its state, and voids its leases. Returns false if it is unknown or
    /// was done before.
    pub async fn mark_processed(&self, key: &InboxKey) -> Result<bool> {
        self.store.mark(key.clone(), ManualMove::Processed).await
    }

    /// Marks a message dead and voids its leases. Returns false if it is unknown or done.
    pub async fn mark_dead(&self, key: &InboxKey, error: &str) -> Result<bool> {
        self.store.mark(key.clone(), ManualMove::Dead { error: error_text(error) }).await
    }

    /// Cancels a message, and returns what became of it: see [`Outbox::cancel`](crate::Outbox::cancel). Its sender is
    /// not told. While the message is kept, it is a duplicate if it arrives again.
    ///
    /// ```
    /// # use postroom::store::MemoryStore;
    /// use postroom::queue::Cancelled;
    /// use postroom::{Inbox, InboxKey, Incoming};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (inbox, key) = (Inbox::new(MemoryStore::new()), InboxKey::new("stripe", "evt_1")?);
    /// assert_eq!(inbox.cancel(&key).await?, Cancelled::Unknown);
    /// inbox.accept(Incoming::new(key.clone(), "payment.received", "{}")).await?;
    /// assert_eq!(inbox.cancel(&key).await?, Cancelled::Waiting);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn cancel(&self, key: &InboxKey) -> Result<Cancelled> {
        self.queue.cancel_target(Target::Arrived(key.clone())).await
    }

    /// Enqueues a message. If its key is known, new content replaces the stored content, unless the message is done.
    pub async fn enqueue(&self, incoming: Incoming) -> Result<Arrival> {
        self.put(incoming, PutMode::Replace).await
    }

    /// Enqueues a message. If its key is known, the first content stays.
    pub async fn accept(&self, incoming: Incoming) -> Result<Arrival> {
        self.put(incoming, PutMode::FirstWins).await
    }

    async fn put(&self, incoming: Incoming, mode: PutMode) -> Result<Arrival> {
        incoming.check_from_outside()?;
        let (key, topic) = (incoming.key().clone(), incoming.topic.clone());
        let arrival =
            self.store.put(incoming, mode).instrument(telemetry::verb_span("put", self.queue.named())).await?;
        telemetry::arrived(self.queue.named(), &key, &topic, arrival);
        Ok(arrival)
    }

    /// Enqueues a message in the caller's own transaction, unless its key is known.
    ///
    /// It refuses a connection whose commits can be lost in a power cut: the sender would get an answer for lost work.
    pub async fn accept_in(&self, tx: &mut impl Tx, incoming: &Incoming) -> Result<Done> {
        tx.check_durable().await?;
        let accept = self.statement(incoming)?;
        let mut done = tx.run(&accept).await?;
        if let (true, Some(seen)) = (done.duplicate, accept.otherwise()) {
            done = tx.run(seen).await?;
        }
        Ok(self.accepted(incoming, done))
    }

    /// Does the same as [`accept_in`](Self::accept_in), on a connection that does not wait.
    pub fn accept_in_blocking(&self, tx: &impl BlockingTx, incoming: &Incoming) -> Result<Done> {
        tx.check_durable()?;
        let accept = self.statement(incoming)?;
        let mut done = tx.run(&accept)?;
        if let (true, Some(seen)) = (done.duplicate, accept.otherwise()) {
            done = tx.run(seen)?;
        }
        Ok(self.accepted(incoming, done))
    }

    fn accepted(&self, incoming: &Incoming, done: Done) -> Done {
        let known = Arrival::Known { done: false, differs: false };
        let arrival = if done.duplicate { known } else { Arrival::First };
        telemetry::arrived(self.queue.named(), incoming.key(), &incoming.topic, arrival);
        done
    }

    /// Returns the statement that enqueues a message, for a driver that this crate does not support.
    pub fn statement(&self, incoming: &Incoming) -> Result<Statement> {
        incoming.check_from_outside()?;
        self.store.accept_statement(incoming)
    }

    /// Acknowledges a claimed message in the caller's own transaction. Make it the last statement. A lost lease is an
    /// error, so that `?` rolls the transaction back.
    pub async fn ack_in(&self, tx: &mut impl Tx, lease: &Lease, response: Option<&str>) -> Result<()> {
        tx.check_durable().await?;
        tx.run(&self.ack_statement(lease, response)?).await?;
        Ok(())
    }

    /// Does the same as [`ack_in`](Self::ack_in), on a connection that does not wait.
    pub fn ack_in_blocking(&self, tx: &impl BlockingTx, lease: &Lease, response: Option<&str>) -> Result<()> {
        tx.check_durable()?;
        tx.run(&self.ack_statement(lease, response)?)?;
        Ok(())
    }

    /// Returns the statement that acknowledges, for a driver that this crate does not support.
    pub fn ack_statement(&self, lease: &Lease, response: Option<&str>) -> Result<Statement> {
        self.store.ack_statement(Queue::Inbox, lease, response)
    }

    /// Returns the keys that match a text: a message's id, or its source, a slash and its id. Searches the whole inbox.
    ///
    /// ```
    /// # use postroom::{Inbox, InboxKey, Incoming};
    /// # use postroom::store::MemoryStore;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let inbox = Inbox::new(MemoryStore::new());
    /// let key = InboxKey::new("stripe", "evt_1")?;
    /// inbox.accept(Incoming::new(key.clone(), "payment.received", "{}")).await?;
    /// assert_eq!(inbox.keys_of("evt_1").await?, [key.clone()]);
    /// assert_eq!(inbox.keys_of("stripe/evt_1").await?, [key]);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn keys_of(&self, id: &str) -> Result<Vec<InboxKey>> {
        self.store.keys_of(id.to_owned()).await
    }

    /// Returns the row of a message.
    pub async fn get(&self, key: &InboxKey) -> Result<Option<Record>> {
        Ok(self.store.find(Identity::Inbox(key.clone())).await?.pop())
    }
}
