//! A message as a store gives it back.

use std::fmt;

use crate::message::{ContentHash, EXPIRES_AT, Headers, InboxKey, Incoming, Kind, MessageId, WorkItemId};
use crate::support::clock::Timestamp;

/// Which table a message stands in, and what it is known by there.
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
        /// Its row.
        id: WorkItemId,
        /// The logical message.
        message_id: MessageId,
        /// The service it goes to; none when it is handled here.
        destination: Option<String>,
    },
    /// It arrived here.
    #[non_exhaustive]
    Inbox {
        /// Who sent it, and under which id.
        key: InboxKey,
        /// The hash of its content and what it was made with, when one was given.
        hash: Option<ContentHash>,
        /// When it last arrived.
        last_seen_at: Timestamp,
    },
}

/// A stored message: what a handler is given and what an operator sees.
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
    /// Where it stands and what it is known by.
    pub origin: Origin,
    /// What it is for.
    pub kind: Kind,
    /// Routes it to a handler.
    pub topic: String,
    /// Its content, byte for byte as it was given.
    pub payload: String,
    /// Named values beside the payload.
    pub headers: Headers,
    /// Links it to what caused it.
    pub correlation_id: Option<String>,
    /// When it was stored first.
    pub created_at: Timestamp,
    /// Not before this time.
    pub due_at: Option<Timestamp>,
    /// Never after this time.
    pub expires_at: Option<Timestamp>,
    /// Failed attempts so far.
    pub attempts: u32,
    /// Dead at this failed attempt; the worker's policy decides when it is none.
    pub max_attempts: Option<u32>,
    /// What the last failed attempt said.
    pub last_error: Option<String>,
}

impl Message {
    /// Its id, as text: the message id of an outbox message, the sender's id of an inbox message.
    pub fn id(&self) -> String {
        match &self.origin {
            Origin::Outbox { message_id, .. } => message_id.to_string(),
            Origin::Inbox { key, .. } => key.message_id().to_owned(),
        }
    }

    /// When it expires at its receiver too, if that was asked for.
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

    /// Takes the content of a message that arrived again under the same key.
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

    /// The service it came from; none in the outbox.
    pub fn source(&self) -> Option<&str> {
        match &self.origin {
            Origin::Outbox { .. } => None,
            Origin::Inbox { key, .. } => Some(key.source()),
        }
    }

    /// The service it goes to; none when it is handled here.
    pub fn destination(&self) -> Option<&str> {
        match &self.origin {
            Origin::Outbox { destination, .. } => destination.as_deref(),
            Origin::Inbox { .. } => None,
        }
    }
}

// Payloads and headers are the user's secrets: they are never printed.
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
