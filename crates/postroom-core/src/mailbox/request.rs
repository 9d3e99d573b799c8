//! Waits for the answer to a message. The answer is stored with the message, so a program can also wait for it after a
//! restart.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::message::{MessageId, WorkItemId, json};
use crate::queue::State;
use crate::store::{Identity, Record, Store};
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};

const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A message whose sender waits for an answer of the type `R`.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::message::OwnerToken;
/// # use postroom::queue::Settle;
/// # use postroom::store::MemoryStore;
/// use postroom::{Command, Outbox, Payload};
/// use postroom::queue::Pending;
///
/// #[derive(serde::Serialize, serde::Deserialize, Command)]
/// #[command("stock.reserve", reply = String)]
/// struct Reserve { order: u64 }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// let pending: Pending<String> = outbox.request(Reserve { order: 7 }.outgoing().to("inventory")).await?;
/// # let mut claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// # let lease = claims.claimed.remove(0).lease;
/// # let _ = outbox.queue().settle(vec![Settle::ack_with(lease, Some(r#""shelf 7""#.into()))]).await?;
/// assert_eq!(pending.answer().await?, "shelf 7");
/// // Perhaps in another program: the answer is stored with the message.
/// let again: Pending<String> = outbox.requested(pending.id(), "inventory");
/// assert_eq!(again.answer().await?, "shelf 7");
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub struct Pending<R> {
    store: Arc<dyn Store>,
    id: MessageId,
    work_item: WorkItemId,
    reply: PhantomData<fn() -> R>,
}

impl<R> Pending<R> {
    pub(crate) fn new(store: Arc<dyn Store>, id: MessageId, destination: &str) -> Self {
        Self { store, id, work_item: WorkItemId::of(id, Some(destination)), reply: PhantomData }
    }

    /// Returns the message's id. With it and the destination, another program can wait for the answer.
    pub fn id(&self) -> MessageId {
        self.id
    }
}

impl<R: DeserializeOwned> Pending<R> {
    /// Waits for the answer, which comes as soon as the destination has handled the message. It is an error if the
    /// message is dead, expired or dismissed, because there is no answer then.
    pub async fn answer(&self) -> Result<R> {
        let mut pause = PAUSE_MIN;
        loop {
            let found = self.store.find(Identity::Outbox(self.work_item.as_uuid())).await?.pop();
            let record = found
                .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no message {} is in the outbox", self.id)))?;
            if let Some(answer) = answer_of(&record)? {
                return json::read("the answer", &answer);
            }
            tokio::time::sleep_until((monotonic() + pause).into()).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for the answer, for at most `limit`. Otherwise the error is [`ErrorKind::TimedOut`]: the message is still
    /// on its way, and the program can wait for the answer again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use postroom::{ErrorKind, NewMessage, Outbox};
    /// use postroom::queue::Pending;
    /// use postroom::store::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let outbox = Outbox::new(MemoryStore::new());
    /// let message = NewMessage::new("stock.reserve", "{}").to("inventory");
    /// let pending: Pending<String> = outbox.requested(message.message_id(), "inventory");
    /// outbox.enqueue(message).await?;
    /// let late = pending.answer_within(Duration::from_millis(10)).await.unwrap_err();
    /// assert_eq!(late.kind(), ErrorKind::TimedOut);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn answer_within(&self, limit: Duration) -> Result<R> {
        match tokio::time::timeout(limit, self.answer()).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(
                ErrorKind::TimedOut,
                format!(
                    "no answer to message {} came within {limit:?}: it is still on its way, and its answer can be \
                     waited for again",
                    self.id
                ),
            )),
        }
    }
}

impl<R> Clone for Pending<R> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), ..*self }
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns the answer, or `None` while it may still come.
fn answer_of(record: &Record) -> Result<Option<String>> {
    let never = |what: &str| {
        let why = record.last_error().map(|error| format!(": {error}")).unwrap_or_default();
        Error::new(ErrorKind::NotDelivered, format!("{what}{why}"))
    };
    match record.state() {
        State::Dead | State::Dismissed => Err(never("the message is dead or dismissed")),
        State::Expired => Err(never("the message was not delivered in time")),
        _ => Ok(record.response().map(str::to_owned)),
    }
}
