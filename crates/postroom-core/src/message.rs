//! Messages: their ids, kinds and headers, before and after they are stored.

mod answer;
mod check;
mod contradiction;
mod hash;
mod id;
mod incoming;
mod into_message;
pub mod json;
mod new;
mod outgoing;
mod payload;
mod stored;
mod unique;

pub use answer::{ANSWER_TO, IN_REPLY_TO, answer_to};
pub use check::{NAME_CHARS_MAX, RESERVED, SERVICE_MAX, error_text, name as check_name, service as check_service};
pub use hash::{ContentHash, hash_bytes, hash_value};
pub use hash::{digest_pieces, encode_pieces};
pub use id::{InboxKey, MessageId, OwnerToken, WorkItemId};
pub use incoming::Incoming;
pub use into_message::IntoMessage;
pub(crate) use new::HEAD_START_MAX;
pub use new::NewMessage;
pub use new::{EXPIRES_AT, LANE, SERVICE_TTL};
pub use outgoing::Outgoing;
pub use payload::{Command, Event, Payload, PushCall, Replies, Signal};
pub use stored::{Message, Origin};
pub use unique::Unique;
pub(crate) use unique::{Clash, HasIt};

use std::collections::BTreeMap;
use std::fmt;

/// The kind of a message.
///
/// ```
/// use postroom::NewMessage;
/// use postroom::message::Kind;
///
/// let message = NewMessage::new("stock.reserve", "{}").kind(Kind::Command).to("inventory");
/// assert_eq!(Kind::from_name("Command"), Some(Kind::Command));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Kind {
    /// Something happened in this service, and is handled here.
    #[default]
    Event,
    /// Something happened that another service wants to know.
    Signal,
    /// Another service is asked to do something.
    Command,
    /// A function marked with `push_call` was called.
    PushCall,
    /// The answer to a command or a signal.
    Response,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Event, Self::Signal, Self::Command, Self::PushCall, Self::Response];

    /// Returns its name, as it is stored and sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "Event",
            Self::Signal => "Signal",
            Self::Command => "Command",
            Self::PushCall => "PushCall",
            Self::Response => "Response",
        }
    }

    /// Returns the kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Named text values that travel with the payload.
///
/// ```
/// use postroom::message::Headers;
///
/// fn language(headers: &Headers) -> &str {
///     headers.get("accept-language").map_or("en", String::as_str)
/// }
///
/// assert_eq!(language(&Headers::from([("accept-language".into(), "fr".into())])), "fr");
/// ```
pub type Headers = BTreeMap<String, String>;
