//! A typed payload with options, before it is enqueued.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::message::{MessageId, NewMessage, Payload};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// A message with a payload of type `P`, before it is enqueued. Problems are reported when it is enqueued.
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
    /// Why the payload could not be encoded.
    problem: Option<Error>,
    payload: PhantomData<fn(P)>,
}

macro_rules! passed_on {
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
    /// Creates a message with this payload. [`Payload::outgoing`] is shorter.
    #[inline]
    pub fn of(payload: &P) -> Self {
        let (message, problem) = match NewMessage::of(payload) {
            Ok(message) => (message, None),
            Err(problem) => (NewMessage::new(P::TOPIC, ""), Some(problem)),
        };
        Self { message, problem, payload: PhantomData }
    }

    passed_on! {
        /// Sets the id. A message that is enqueued again with the same id is recognised as a duplicate.
        id(id: MessageId);
        /// Sends it to another service. By default it then expires 24 hours after it is due.
        to(destination: impl Into<String>);
        /// Sets the time before which it is not handled or sent.
        due_at(time: Timestamp);
        /// Sets how long after enqueuing it becomes due, by the store's clock.
        due_after(delay: Duration);
        /// Lets it go ahead of others, as if it had been due this long ago; at most 24 hours.
        head_start(ahead: Duration);
        /// Sets the time at which it expires.
        expires_at(time: Timestamp);
        /// Sets how long after enqueuing it expires, by the store's clock.
        expires_after(ttl: Duration);
        /// Makes it expire at its receiver as well.
        expires_there();
        /// Sets its correlation id. An empty text means none.
        correlation_id(id: impl Into<String>);
        /// Puts it into a lane: messages of one lane are handled or sent in order, one after the other. An empty text
        /// means none.
        lane(lane: impl Into<String>);
        /// Adds a header.
        header(name: impl Into<String>, value: impl Into<String>);
        /// Marks it dead after this many failed attempts, whatever the worker's policy says.
        max_attempts(attempts: u32);
    }

    /// Returns the message itself, for a handler's context or SQLite's `store.write`.
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
