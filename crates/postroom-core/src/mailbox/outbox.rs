//! The outbox: a message is stored in the caller's own transaction, or in a separate one.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::mailbox::request::Pending;
use crate::mailbox::work_queue::WorkQueue;
use crate::message::{IntoMessage, MessageId, NewMessage, Outgoing, Replies, WorkItemId, check_name};
use crate::queue::Queue;
use crate::queue::retry::RetryPolicies;
use crate::sql::{BlockingTx, Statement, Tx};
use crate::store::unique::{self, OnTx};
use crate::store::{Cancelled, Filter, Identity, Record, Store, Stored, Target, Wake};
use crate::support::error::{Error, Result};
use crate::telemetry;

/// The outbox of a store. Cheap to clone.
///
/// ```
/// use postroom::{MessageId, NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let message = NewMessage::new("order.approved", r#"{"order":7}"#).id(MessageId::new()).to("billing");
/// assert!(outbox.enqueue(message.clone()).await?.is_new());
/// assert!(outbox.enqueue(message).await?.is_duplicate(), "nothing is stored twice under one id");
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Outbox {
    store: Arc<dyn Store>,
    queue: WorkQueue,
    policies: Option<Arc<RetryPolicies>>,
}

/// A message that was enqueued in the caller's transaction: [`Stored`], and a guard. Dropping it wakes the workers,
/// normally after the caller's commit. Until then they do not know of the message.
///
/// ```
/// use postroom::{NewMessage, Outbox};
///
/// fn place(outbox: &Outbox, conn: &mut rusqlite::Connection) -> Result<(), Box<dyn std::error::Error>> {
///     let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
///     tx.execute("INSERT INTO orders (id) VALUES (7)", [])?;
///     let enqueued = outbox.enqueue_in_blocking(&tx, NewMessage::new("order.placed", "7"))?;
///     tx.commit()?;
///     drop(enqueued); // wakes the workers, now that there is work
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping this wakes the workers, so keep it until the commit: `let _enqueued = …`, not `let _ = …`, \
              which drops it at once; a transaction of `outbox.begin` needs no such care"]
pub struct Enqueued {
    stored: Stored,
    wake: Wake,
}

impl Deref for Enqueued {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.stored
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        self.wake.ring_everywhere();
    }
}

impl Outbox {
    /// Creates the outbox of `store`.
    pub fn new(store: impl Store) -> Self {
        Self::of(Arc::new(store))
    }

    /// Creates the outbox of a shared store.
    pub fn of(store: Arc<dyn Store>) -> Self {
        let queue = WorkQueue::new(store.clone(), Queue::Outbox);
        Self { store, queue, policies: None }
    }

    /// Sets the retry policies. A message without a time to live gets that of the policy for its destination or topic.
    ///
    /// ```
    /// use std::time::Duration;
    /// use postroom::{NewMessage, Outbox, RetryPolicy};
    /// use postroom::queue::RetryPolicies;
    /// use postroom::store::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let week = RetryPolicy::services().ttl(Some(Duration::from_secs(7 * 24 * 3600)));
    /// let outbox = Outbox::new(MemoryStore::new()).policies(RetryPolicies::default().service("billing", week));
    /// let id = outbox.enqueue(NewMessage::new("order.placed", "{}").to("billing")).await?.id();
    /// let record = outbox.find(id.as_uuid()).await?.remove(0);
    /// assert!(record.expires_at() > record.visible_at().map(|at| at.plus(Duration::from_secs(6 * 24 * 3600))));
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn policies(mut self, policies: RetryPolicies) -> Self {
        self.policies = Some(Arc::new(policies));
        self
    }

    /// Returns the message with the time to live of its policy.
    fn living<'m>(&self, message: &'m NewMessage) -> Cow<'m, NewMessage> {
        let Some(policies) = &self.policies else { return Cow::Borrowed(message) };
        let mut message = message.clone();
        message.unasked_ttl = Some(policies.of(&message.topic, message.destination.as_deref()).time_to_live());
        Cow::Owned(message)
    }

    /// Returns the work-queue verbs: claim, ack, abandon, fail and the rest.
    pub fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Stores a message in its own transaction. The message is durable when this returns.
    pub async fn enqueue(&self, message: impl IntoMessage) -> Result<Stored> {
        let mut stored = self.enqueue_many([message]).await?;
        stored.pop().ok_or_else(|| Error::invalid("nothing was enqueued"))
    }

    /// Stores many messages in one transaction: all of them or none.
    pub async fn enqueue_many(&self, messages: impl IntoIterator<Item = impl IntoMessage>) -> Result<Vec<Stored>> {
        let messages = messages.into_iter().map(IntoMessage::into_message).collect::<Result<Vec<_>>>()?;
        messages.iter().try_for_each(NewMessage::check)?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let messages = match &self.policies {
            Some(_) => messages.iter().map(|message| self.living(message).into_owned()).collect(),
            None => messages,
        };
        let messages = telemetry::all_traced(messages);
        let told = telemetry::Enqueued::of(&messages);
        let stored =
            self.store.enqueue(messages).instrument(telemetry::verb_span("enqueue", self.queue.named())).await?;
        told.tell(self.queue.store_name(), &stored);
        Ok(stored)
    }

    /// Stores a message in the caller's own transaction, on the caller's connection. It exists if and only if the
    /// caller commits. Keep the returned guard until then, with a name (`let _enqueued = …`): a bare `_` would drop it
    /// at once. A transaction from [`begin`](Self::begin) needs no guard.
    pub async fn enqueue_in(&self, tx: &mut impl Tx, message: impl IntoMessage) -> Result<Enqueued> {
        let stored = self.store_in(tx, &message.into_message()?).await?;
        Ok(Enqueued { stored, wake: self.wake().clone() })
    }

    /// Does the same as [`enqueue_in`](Self::enqueue_in), on a connection that does not wait.
    pub fn enqueue_in_blocking(&self, tx: &impl BlockingTx, message: impl IntoMessage) -> Result<Enqueued> {
        let stored = self.store_blocking(tx, &message.into_message()?)?;
        Ok(Enqueued { stored, wake: self.wake().clone() })
    }

    pub(crate) async fn store_in(&self, tx: &mut impl Tx, message: &NewMessage) -> Result<Stored> {
        let stored = unique::store(&mut OnTx(tx), message, &self.statement(message)?).await?;
        Ok(self.told(message, stored))
    }

    pub(crate) fn store_blocking(&self, tx: &impl BlockingTx, message: &NewMessage) -> Result<Stored> {
        let stored = unique::store_blocking(tx, message, &self.statement(message)?)?;
        Ok(self.told(message, stored))
    }

    fn told(&self, message: &NewMessage, stored: Stored) -> Stored {
        telemetry::Enqueued::of(std::slice::from_ref(message)).tell(self.queue.store_name(), &[stored]);
        stored
    }

    pub(crate) fn wake(&self) -> &Wake {
        self.store.wake(Queue::Outbox)
    }

    /// Returns the statement that stores a message, for a driver that this crate does not support. Pass its row count
    /// to [`Statement::check`]. If the message has a unique key, run [`Statement::first`] before it.
    pub fn statement(&self, message: &NewMessage) -> Result<Statement> {
        message.check()?;
        self.store.insert_statement(&telemetry::traced(&self.living(message)))
    }

    /// Returns the rows of a message, one for each destination, by message id or work item id.
    pub async fn find(&self, id: uuid::Uuid) -> Result<Vec<Record>> {
        self.store.find(Identity::Outbox(id)).await
    }

    /// Stores a command in its own transaction, and returns a value that waits for the answer.
    ///
    /// ```
    /// # use postroom::{Command, Outbox, Payload};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize, Command)]
    /// #[command("stock.reserve", reply = Reserved)]
    /// struct Reserve { order: u64 }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Reserved { shelf: String }
    ///
    /// # async fn f(outbox: Outbox) -> postroom::Result<()> {
    /// let reserved = outbox.request(Reserve { order: 7 }.outgoing().to("inventory")).await?.answer().await?;
    /// println!("it is on {}", reserved.shelf);
    /// # Ok(()) }
    /// ```
    pub async fn request<C: Replies>(&self, command: Outgoing<C>) -> Result<Pending<C::Reply>> {
        let message = command.message()?;
        let to = message.destination.clone();
        let to = to.ok_or_else(|| Error::invalid("only another service can answer: name it with `to`"))?;
        let pending = self.requested(message.message_id(), &to);
        self.enqueue(message).await?;
        Ok(pending)
    }

    /// Returns a value that waits for the answer to a message that was sent before, perhaps by a program that has ended
    /// since.
    pub fn requested<R>(&self, id: MessageId, destination: &str) -> Pending<R> {
        Pending::new(self.store.clone(), id, destination)
    }

    /// Cancels a message, and returns what became of it. One that waits is taken back, also if it failed and waits for
    /// its next attempt; the effects of its attempts remain. One in progress is asked to stop: within about a second
    /// its handler is told by [`Ctx::cancelled`](crate::Ctx::cancelled), and it is not tried again if this attempt
    /// fails.
    ///
    /// The message becomes [`Dismissed`](crate::State::Dismissed), with "cancelled" as the reason. While it is kept
    /// ([`Retention`](crate::Retention)), the same message is a duplicate if it is enqueued again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use postroom::queue::Cancelled;
    /// use postroom::{NewMessage, Outbox};
    /// use postroom::operator::Operator;
    /// use postroom::store::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let outbox = Outbox::new(MemoryStore::new());
    /// let reminder = NewMessage::new("reminder.due", r#"{"order":7}"#).due_after(Duration::from_secs(3600));
    /// let id = outbox.enqueue(reminder).await?.id();
    /// assert_eq!(outbox.cancel(id).await?, Cancelled::Waiting);
    /// assert_eq!(outbox.cancel(id).await?, Cancelled::TooLate);
    /// let record = outbox.find(id.as_uuid()).await?.remove(0);
    /// assert_eq!(record.dismissal().and_then(Operator::why), Some("cancelled"));
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn cancel(&self, id: WorkItemId) -> Result<Cancelled> {
        self.queue.cancel_target(Target::Outgoing(id)).await
    }

    /// Returns the message that has a [unique key](crate::Unique), or the one that had it last, if that is still known.
    pub async fn with_key(&self, key: &str) -> Result<Option<WorkItemId>> {
        check_name("unique key", key)?;
        self.store.holder(key.to_owned()).await
    }

    /// Does the same as [`cancel`](Self::cancel) to the message that has, or had last, a [unique key](crate::Unique).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use postroom::queue::Cancelled;
    /// use postroom::message::Unique;
    /// use postroom::{NewMessage, Outbox};
    /// # use postroom::store::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let outbox = Outbox::new(MemoryStore::new());
    /// let remind = NewMessage::new("reminder.due", r#"{"order":7}"#).due_after(Duration::from_secs(3600));
    /// outbox.enqueue(remind.unique(Unique::until_done("reminder-7"))).await?;
    /// assert_eq!(outbox.cancel_key("reminder-7").await?, Cancelled::Waiting);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn cancel_key(&self, key: &str) -> Result<Cancelled> {
        self.queue.cancel_key(key).await
    }

    /// Puts done messages back in the queue, because their receiver was restored from a backup.
    pub async fn redrive(&self, filter: Filter, ttl: Option<Duration>) -> Result<u64> {
        self.queue.redrive(filter, ttl).await
    }
}
