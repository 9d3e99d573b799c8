//! Ids as distinct types, so that they cannot be confused.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::message::check;
use crate::support::error::{Error, Result};

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Uuid);

        impl $name {
            /// Returns the id as a UUID.
            pub fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                let uuid = Uuid::try_parse(text)
                    .map_err(|source| Error::invalid(format!("{text:?} is not a UUID")).caused_by(source))?;
                Self::from_uuid(uuid)
            }
        }
    };
}

uuid_id! {
    /// The id of a logical message. It stays the same across retries and destinations.
    ///
    /// ```
    /// use postroom::{MessageId, NewMessage};
    ///
    /// let id = MessageId::new();
    /// let message = NewMessage::new("order.placed", "{}").id(id);
    /// assert_eq!(message.message_id(), id);
    /// assert_eq!(id.to_string().parse::<MessageId>()?, id);
    /// # Ok::<(), postroom::Error>(())
    /// ```
    MessageId
}

uuid_id! {
    /// The id of a row in the outbox: a message for one destination.
    ///
    /// ```
    /// use postroom::MessageId;
    /// use postroom::message::WorkItemId;
    ///
    /// let message = MessageId::new();
    /// assert_eq!(WorkItemId::of(message, Some("billing")), WorkItemId::of(message, Some("billing")));
    /// assert_ne!(WorkItemId::of(message, Some("billing")), WorkItemId::of(message, Some("shipping")));
    /// ```
    WorkItemId
}

uuid_id! {
    /// The token of a lease holder: a random id, new each time a worker starts. It is never the nil UUID.
    ///
    /// ```
    /// use std::time::Duration;
    /// use postroom::{NewMessage, Outbox};
    /// use postroom::message::OwnerToken;
    /// use postroom::store::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let outbox = Outbox::new(MemoryStore::new());
    /// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
    /// let owner = OwnerToken::new();
    /// let claims = outbox.queue().claim(owner, Duration::from_secs(30), 10).await?;
    /// assert_eq!(claims.claimed[0].lease.owner(), owner);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    OwnerToken
}

impl MessageId {
    /// Creates a new id that sorts by the time of its creation (UUIDv7).
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Wraps an id that was created elsewhere. The nil UUID is refused.
    pub fn from_uuid(uuid: Uuid) -> Result<Self> {
        not_nil("a message id", uuid).map(Self)
    }
}

impl Default for MessageId {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkItemId {
    /// Wraps an id that was read elsewhere. The nil UUID is refused.
    pub fn from_uuid(uuid: Uuid) -> Result<Self> {
        not_nil("a work item id", uuid).map(Self)
    }

    /// Returns the work item of a message. It is the message's own id if the message is handled here. Otherwise it is
    /// derived from the id and the destination, so a message enqueued twice for one destination is a duplicate, and for
    /// two destinations it is not.
    pub fn of(message: MessageId, destination: Option<&str>) -> Self {
        let Some(destination) = destination else { return Self(message.0) };
        let digest = Sha256::new().chain_update(message.0.as_bytes()).chain_update(destination).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        // The first bytes are those of the message, so ids created one after the other stay neighbours in the index.
        bytes[..6].copy_from_slice(&message.0.as_bytes()[..6]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl OwnerToken {
    /// Creates a new random token.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Creates a token that cannot be guessed from other tokens.
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Wraps a token that was created elsewhere. The nil UUID is refused.
    pub fn from_uuid(uuid: Uuid) -> Result<Self> {
        not_nil("an owner token", uuid).map(Self)
    }
}

impl Default for OwnerToken {
    fn default() -> Self {
        Self::new()
    }
}

fn not_nil(what: &str, uuid: Uuid) -> Result<Uuid> {
    if uuid.is_nil() {
        return Err(Error::invalid(format!("{what} must not be the nil UUID")));
    }
    Ok(uuid)
}

/// The key by which an inbox recognises a message: its sender, and the sender's id for it.
///
/// ```
/// use postroom::InboxKey;
///
/// let key = InboxKey::new("stripe", "evt_1")?;
/// assert_eq!(key.to_string(), "stripe/evt_1");
/// assert!(InboxKey::new("stripe", "").is_err());
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InboxKey {
    source: String,
    message_id: String,
}

impl InboxKey {
    /// Creates a key. Both parts are case-sensitive, not empty, and at most 255 characters long.
    pub fn new(source: impl Into<String>, message_id: impl Into<String>) -> Result<Self> {
        let key = Self { source: source.into(), message_id: message_id.into() };
        check::name("source", &key.source)?;
        check::name("message id", &key.message_id)?;
        Ok(key)
    }

    /// Returns the service that the message came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the sender's id for the message.
    pub fn message_id(&self) -> &str {
        &self.message_id
    }
}

impl fmt::Display for InboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.message_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nil_uuid_is_nobody() {
        assert!(OwnerToken::from_uuid(Uuid::nil()).is_err());
        assert!(MessageId::from_uuid(Uuid::nil()).is_err());
        assert!("00000000-0000-0000-0000-000000000000".parse::<WorkItemId>().is_err());
    }

    #[test]
    fn a_work_item_is_told_by_message_and_destination() {
        let message = MessageId::new();
        let here = WorkItemId::of(message, None);
        let billing = WorkItemId::of(message, Some("billing"));
        assert_eq!(here.as_uuid(), message.as_uuid());
        assert_eq!(billing, WorkItemId::of(message, Some("billing")));
        assert_ne!(billing, here);
        assert_ne!(billing, WorkItemId::of(message, Some("shipping")));
        assert_ne!(billing, WorkItemId::of(MessageId::new(), Some("billing")));
    }
}
