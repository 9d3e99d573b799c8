//! Contradictions in a message: it asks for something that cannot happen.

use crate::message::NewMessage;
use crate::message::new::Due;
use crate::support::error::{Error, Result};

impl NewMessage {
    /// Refuses contradictions. A point in time and a duration are not compared, because only the store knows the time.
    pub(super) fn check_contradictions(&self) -> Result<()> {
        if self.stays_here && self.destination.is_some() {
            let topic = &self.topic;
            return Err(Error::invalid(format!(
                "{topic} has a destination, but it is an Event, which stays in this service; derive Signal to send it"
            )));
        }
        let never = |due: &str, expires: &str| {
            let why = format!("{due} is not before {expires}: the message would have expired before it is due");
            Err(Error::invalid(why))
        };
        match (self.due, self.expires_after, self.expires_at) {
            (Due::After(due), Some(expires), _) if due >= expires => never("due_after", "expires_after"),
            (Due::At(due), _, Some(expires)) if due >= expires => never("due_at", "expires_at"),
            _ => Ok(()),
        }
    }
}
