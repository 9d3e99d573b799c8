//! A message as a store returns it.

use std::fmt;

use crate::message::{ContentHash, EXPIRES_AT, Headers, InboxKey, Incoming, Kind, MessageId, WorkItemId};
use crate::support::clock::Timestamp;

/// The table that contains a message, and what identifies it there.
///
/// ```
/// use postroom::Message;
/// use postroom::message::Origin;
///
/// fn described(message: &Message) -> String {
///     match &message.origin {
///         Origin::Outbox { destination: Some(service), .. } => format!("{} to {service}", message.topic),
///         Origin::Inbox { key, .. } => format!("{} from {}", message.topic, key.source()),
///         _ => format!("{} of our own", message.topic),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// It was enqueued here.
    #[non_exhaustive]
    Outbox {
        /// The id of its row.
        id: WorkItemId,
        /// The id of the logical message.
        message_id: MessageId,
        /// The service that it goes to, or `None` if it is handled here.
        destination: Option<String>,
    },
    /// It arrived here.
    #[non_exhaustive]
    Inbox {
        /// The sender, and the sender's id for the message.
        key: InboxKey,
        /// The hash of its content and the algorithm, if the sender gave one.
        hash: Option<ContentHash>,
        /// When it last arrived.
        last_seen_at: Timestamp,
    },
}

/// A stored message, as handlers and operators see it.
///
/// ```
/// use postroom::{Outbox, Signal};
/// use postroom::store::MemoryStore;
///
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64 }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let stored = outbox.enqueue(&OrderApproved { order: 7 }).await?;
/// let found = outbox.find(stored.id().as_uuid()).await?;
/// let message = found[0].message().unwrap();
/// assert_eq!(message.topic, "order.approved");
/// assert_eq!(message.read::<OrderApproved>()?.order, 7);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// The table that contains it, and what identifies it there.
    pub origin: Origin,
    /// Its kind.
    pub kind: Kind,
    /// The topic, which routes it to a handler.
    pub topic: String,
    /// Its content, byte for byte as it was given.
    pub payload: String,
    /// Whether the payload was dropped because the message was done long ago. Then `payload` is empty.
    pub payload_dropped: bool,
    /// Named values beside the payload.
    pub headers: Headers,
    /// Links it to what caused it.
    pub correlation_id: Option<String>,
    /// Its lane: the messages of one lane are handled in order, one after the other.
    pub lane: Option<String>,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// The time before which it is not handled or sent.
    pub due_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The number of failed attempts so far.
    pub attempts: u32,
    /// The number of failed attempts after which it is dead. With `None`, the worker's policy decides.
    pub max_attempts: Option<u32>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
}

impl Message {
    /// Returns its id as text: the message id in the outbox, the sender's id in the inbox.
    pub fn id(&self) -> String {
        match &self.origin {
            Origin::Outbox { message_id, .. } => message_id.to_string(),
            Origin::Inbox { key, .. } => key.message_id().to_owned(),
        }
    }

    /// Returns when it expires at its receiver too, if that was requested.
    #[doc(hidden)]
    pub fn expires_there(&self) -> Option<Timestamp> {
        self.expires_at.filter(|_| self.headers.contains_key(EXPIRES_AT))
    }

    pub(crate) fn hash(&self) -> Option<&ContentHash> {
        match &self.origin {
            Origin::Outbox { .. } => None,
            Origin::Inbox { hash, .. } => hash.as_ref(),
        }
    }

    /// Takes over the content of a message that arrived again under the same key. Its lane stays as it is.
    pub(crate) fn replace_content(&mut self, incoming: &Incoming) {
        if let Origin::Inbox { hash, .. } = &mut self.origin {
            hash.clone_from(&incoming.hash);
        }
        self.kind = incoming.kind;
        self.topic.clone_from(&incoming.topic);
        self.payload.clone_from(&incoming.payload);
        self.headers.clone_from(&incoming.headers);
        self.correlation_id.clone_from(&incoming.correlation_id);
        self.due_at = incoming.due_at;
        self.max_attempts = incoming.max_attempts;
    }

    /// Returns the service that it came from, or `None` in the outbox.
    pub fn source(&self) -> Option<&str> {
        match &self.origin {
            Origin::Outbox { .. } => None,
            Origin::Inbox { key, .. } => Some(key.source()),
        }
    }

    /// Returns the service that it goes to, or `None` if it is handled here.
    pub fn destination(&self) -> Option<&str> {
        match &self.origin {
            Origin::Outbox { destination, .. } => destination.as_deref(),
            Origin::Inbox { .. } => None,
        }
    }
}

// Payloads and headers are the user's secrets, so they are never printed.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("origin", &self.origin)
            .field("topic", &self.topic)
            .field("attempts", &self.attempts)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
