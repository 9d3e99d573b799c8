//! Decides whether a message that arrives at a receiver may be handled now, in the same way for every store.

use std::fmt;

use crate::message::{Incoming, Message, OwnerToken};
use crate::queue::{Lease, State};
use crate::store::Record;
use crate::support::clock::{Doubt, Timestamp};

/// The decision about a message that arrived in a receiver's own transaction.
///
/// Part of the contract between receivers and the backends of this crate; its shape may change in any release.
///
/// ```
/// use postroom::{InboxKey, Incoming};
/// use postroom::store::{Admission, MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let incoming = Incoming::new(InboxKey::new("orders", "1")?, "stock.reserve", "{}");
/// let refused = store.refuse(incoming, "no such order".into()).await?;
/// assert!(matches!(refused, Admission::Refused { why } if why == "no such order"));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub enum Admission {
    /// Its row is held in this transaction: handle it, acknowledge it, commit.
    Held {
        /// The right to settle it.
        lease: Lease,
        /// The message.
        message: Box<Message>,
    },
    /// It was handled before.
    Known {
        /// The answer of that time.
        response: Option<String>,
    },
    /// It was refused for good before.
    Refused {
        /// The reason.
        why: String,
    },
    /// The same id arrived with other content before.
    Differs,
    /// It is being handled at this moment.
    Busy,
    /// It is dead here; an operator may requeue it.
    Dead,
    /// Its time to live is over.
    Expired,
}

// Answers are the user's data, so they are never printed.
impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held { .. } => "Held",
            Self::Known { .. } => "Known",
            Self::Refused { .. } => "Refused",
            Self::Differs => "Differs",
            Self::Busy => "Busy",
            Self::Dead => "Dead",
            Self::Expired => "Expired",
        })
    }
}

impl Record {
    /// Decides about a known message that arrives at a receiver. A message that only waits is taken over.
    pub(crate) fn admit(
        &mut self,
        incoming: &Incoming,
        owner: OwnerToken,
        until: Timestamp,
        now: Timestamp,
        doubt: Doubt,
    ) -> Admission {
        let stored = self.message.as_ref().ok().and_then(Message::hash);
        if stored.zip(incoming.hash.as_ref()).is_some_and(|(stored, arrived)| stored.differs(arrived)) {
            return Admission::Differs;
        }
        match self.work.state {
            State::Done => return Admission::Known { response: self.response.clone() },
            // Only a receiver's refusal leaves an answer on a dead row. Dismissing the row does not change the answer.
            State::Dead | State::Dismissed => {
                return self.response.clone().map_or(Admission::Dead, |why| Admission::Refused { why });
            }
            State::Leased | State::Processing => return Admission::Busy,
            State::Expired => return Admission::Expired,
            State::Ready if self.work.is_past_expiry(doubt.early(now)) => return Admission::Expired,
            State::Seen if incoming.is_past_expiry(doubt.early(now)) => return Admission::Expired,
            State::Seen => self.take(incoming, doubt.late(now)),
            State::Ready => {}
        }
        self.work.claim(owner, until, now);
        match (self.lease(), self.message_now()) {
            (Some(lease), Ok(message)) => Admission::Held { lease, message: Box::new(message) },
            // A row that cannot be read waits for an operator.
            _ => Admission::Dead,
        }
    }

    /// Refuses it for good, and keeps the reason as the answer for later requests.
    pub(crate) fn refuse(&mut self, why: &str, now: Timestamp) {
        self.work.fail(Some(why.to_owned()), now);
        self.response = Some(why.to_owned());
    }
}
