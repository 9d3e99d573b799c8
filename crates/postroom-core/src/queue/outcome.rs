//! The outcome of a message, and the only code that turns it into a verb.

use std::time::Duration;

use crate::message::Message;
use crate::queue::retry::{RetryPolicies, RetryPolicy};
use crate::queue::{Cause, Fault, Lease, Settle, Whose};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind};

/// The outcome of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// It was acknowledged in the handler's own transaction.
    Settled,
    /// Somebody else has it, so there is nothing to do.
    Lost,
    /// It was delivered and must be acknowledged.
    Done {
        /// The answer.
        response: Option<String>,
    },
    /// It failed. What happens next depends on whose failure it is.
    Failed(Fault),
    /// Work on it did not start or was interrupted. It goes back to the queue as if it had not been claimed.
    Release,
}

/// What settling depends on, apart from the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'p> {
    pub(crate) policy: &'p RetryPolicy,
    /// The message's own limit of attempts.
    pub(crate) max_attempts: Option<u32>,
    /// How long the message has waited since it was due.
    pub(crate) waited: Duration,
}

impl<'p> Terms<'p> {
    pub(crate) fn of(policies: &'p RetryPolicies, message: Option<&Message>, now: Timestamp) -> Self {
        let (topic, destination) = message.map_or(("", None), |held| (held.topic.as_str(), held.destination()));
        let due = |held: &Message| held.due_at.unwrap_or(held.created_at).max(held.created_at);
        Self {
            policy: policies.of(topic, destination),
            max_attempts: message.and_then(|held| held.max_attempts),
            waited: message.map(|held| now.since(due(held))).unwrap_or_default(),
        }
    }
}

const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// Even a message that spends no attempt must not be retried in a tight loop.
const PAUSE_MIN: Duration = Duration::from_secs(1);

impl Outcome {
    pub(crate) fn failed(cause: Cause, why: impl Into<String>) -> Self {
        Self::Failed(Fault::new(cause, why))
    }

    /// The database failed. If that is temporary, it is not the message's fault.
    pub(crate) fn of_database(error: &Error) -> Self {
        let cause = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Closed => Cause::DatabaseUnavailable,
            _ => Cause::RolledBack,
        };
        Self::failed(cause, error.to_string())
    }

    /// Returns the failure, if there is one.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Failed(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns whether it was successful.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Settled | Self::Done { .. })
    }

    /// Returns whether its place dealt with it, successfully or not.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_done() || self.fault().is_some_and(|fault| fault.whose() == Whose::Message)
    }

    /// Returns the verb that settles it, or `None` if there is nothing to settle.
    pub(crate) fn into_settle<'p>(self, lease: Lease, terms: impl FnOnce() -> Terms<'p>) -> Option<Settle> {
        Some(match self {
            Self::Settled | Self::Lost => return None,
            Self::Release => Settle::release(lease),
            Self::Done { response } => Settle::ack_with(lease, response),
            Self::Failed(fault) => judge(&fault, lease, terms()),
        })
    }
}

/// Only the message's own failure spends an attempt. Everything else makes it wait.
fn judge(fault: &Fault, lease: Lease, terms: Terms<'_>) -> Settle {
    let Terms { policy, max_attempts, waited } = terms;
    let attempt = lease.attempts().saturating_add(1);
    let is_last = attempt >= max_attempts.unwrap_or(policy.attempts_max());
    let delay = match fault.whose() {
        _ if fault.is_final() => return Settle::dead(lease, fault),
        Whose::Message if is_last => return Settle::dead(lease, fault),
        Whose::Message => fault.pause().unwrap_or_else(|| policy.delay(attempt)),
        // Its place is held, so it waits until the place is tried again.
        Whose::Place if fault.holds_the_place() => policy.delay(1).max(PAUSE_MIN),
        // The handler said when to try again.
        Whose::Place if fault.cause() == Cause::Postponed => fault.pause().unwrap_or_default().max(PAUSE_MIN),
        Whose::Place => fault.pause().unwrap_or_default().max(policy.pause(waited)).max(PAUSE_MIN),
        Whose::Ours => PAUSE_MIN,
    };
    // Keeps a delay within bounds, whatever a handler or another service asks for.
    Settle::again(lease, delay.clamp(Duration::from_millis(1), DELAY_MAX), fault)
}
