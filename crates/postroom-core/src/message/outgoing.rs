//! A typed payload on its way into an outbox, before it is there.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::message::{MessageId, NewMessage, Payload};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// A message with a payload of type `P`, before it is in an outbox. What is wrong with it is said when it is put there.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{Outbox, Payload, Signal};
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64 }
///
/// # async fn f(outbox: Outbox) -> postroom::Result<()> {
/// let approved = OrderApproved { order: 7 };
/// let later = approved.outgoing().to("billing").correlation_id("order-7").due_after(Duration::from_secs(60));
/// outbox.enqueue(later).await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent before it is enqueued"]
pub struct Outgoing<P> {
    message: NewMessage,
    /// Why the payload could not be written.
    problem: Option<Error>,
    payload: PhantomData<fn(P)>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $name(self, $($argument: $type),*) -> Self {
                Self { message: self.message.$name($($argument),*), ..self }
            }
        )*
    };
}

impl<P: Payload> Outgoing<P> {
    /// A message with this payload: [`Payload::outgoing`] is shorter.
    #[inline]
    pub fn of(payload: &P) -> Self {
        let (message, problem) = match NewMessage::of(payload) {
            Ok(message) => (message, None),
            Err(problem) => (NewMessage::new(P::TOPIC, ""), Some(problem)),
        };
        Self { message, problem, payload: PhantomData }
    }

    setters! {
        /// With this id: enqueued again, it is recognised as a duplicate.
        id(id: MessageId);
        /// To another service; unless told otherwise it expires 24 hours after it is due.
        to(destination: impl Into<String>);
        /// Not before this time.
        due_at(time: Timestamp);
        /// Not before this long after it was enqueued, by the store's clock.
        due_after(delay: Duration);
        /// Never after this time: then it becomes Expired.
        expires_at(time: Timestamp);
        /// Never later than this after it was enqueued, by the store's clock.
        expires_after(ttl: Duration);
        /// Not handled there either when its time is over.
        expires_there();
        /// With this correlation id; an empty one is none.
        correlation_id(id: impl Into<String>);
        /// With this header as well.
        header(name: impl Into<String>, value: impl Into<String>);
        /// Dead at this failed attempt, whatever the worker's policy says.
        max_attempts(attempts: u32);
    }

    /// The message itself, for a handler's context or SQLite's `store.write`.
    #[inline]
    pub fn message(self) -> Result<NewMessage> {
        match self.problem {
            None => Ok(self.message),
            Some(problem) => Err(problem),
        }
    }
}

impl<P> fmt::Debug for Outgoing<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outgoing").field(&self.message).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Placed {}

    impl Payload for Placed {
        const TOPIC: &'static str = "order.placed";
        type Reply = ();
        const STAYS_HERE: bool = true;
    }

    fn refused(outgoing: Outgoing<Placed>) -> String {
        outgoing.message().and_then(|message| message.check()).unwrap_err().to_string()
    }

    #[test]
    fn an_event_has_no_destination() {
        assert!(Placed {}.outgoing().message().unwrap().check().is_ok());
        let why = refused(Placed {}.outgoing().to("billing"));
        assert!(why.contains("destination") && why.contains("derive Signal"), "{why}");
        assert!(NewMessage::new("order.placed", "{}").to("billing").check().is_ok(), "it has no type");
    }

    #[test]
    fn a_message_is_due_before_it_expires() {
        let [short, long] = [600, 1200].map(Duration::from_millis);
        let [early, late] = [1, 2].map(Timestamp::from_micros);
        let message = || Placed {}.outgoing();
        for (contradiction, fields) in [
            (message().due_after(long).expires_after(short), ["due_after", "expires_after"]),
            (message().due_after(short).expires_after(short), ["due_after", "expires_after"]),
            (message().due_at(late).expires_at(early), ["due_at", "expires_at"]),
        ] {
            let why = refused(contradiction);
            assert!(fields.iter().all(|field| why.contains(field)), "{why}");
        }
        for fine in [
            message().due_after(short).expires_after(long),
            message().due_at(early).expires_at(late),
            message().due_at(late).expires_after(short),
            message().due_after(long).expires_at(early),
        ] {
            assert!(fine.message().unwrap().check().is_ok());
        }
    }
}
