//! What became of a message, and the one place that turns it into a verb.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::handler::Fate;
use crate::handler::HandlerError;
use crate::queue::{Lease, Settle};
use crate::worker::WorkerOptions;

/// What became of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// Acknowledged already, in the handler's own transaction.
    Settled,
    /// Somebody else has it: nothing to say.
    Lost,
    /// Delivered; to be acknowledged.
    Done {
        /// The answer.
        response: Option<String>,
    },
    /// To be tried again.
    Retry {
        /// After this long; by the policy when it is none.
        after: Option<Duration>,
        /// What went wrong.
        why: String,
        /// It went to another service, which has a policy of its own.
        service: bool,
    },
    /// To be tried again without spending an attempt.
    Postpone {
        /// After this long.
        after: Duration,
        /// What it waits for.
        why: String,
    },
    /// Nobody here can take it: a rolling deploy is no error. It counts, but does not kill for a day.
    Unroutable {
        /// What is missing.
        why: String,
        /// Since when it has been waiting.
        created_at: Timestamp,
    },
    /// Never to be tried again.
    Dead {
        /// What went wrong.
        why: String,
    },
    /// Not begun, or broken off: back in line as if it had not been claimed.
    Release,
}

const PAUSE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// What spends no attempt must not spin either.
const POSTPONE_MIN: Duration = Duration::from_secs(1);
/// An unroutable message is not given up before it is that old.
const UNROUTABLE_KEPT: Duration = Duration::from_secs(24 * 3600);

impl Outcome {
    pub(crate) fn retry(why: impl fmt::Display) -> Self {
        Self::Retry { after: None, why: why.to_string(), service: false }
    }

    /// The database failed, not the message: it is tried again without spending an attempt, if that may pass.
    pub(crate) fn of_database(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Self::Postpone { after: POSTPONE_MIN, why: error.to_string() },
            _ => Self::retry(error),
        }
    }

    /// The verb that settles it; none when there is nothing left to settle.
    pub(crate) fn into_settle(
        self,
        lease: Lease,
        max_attempts: Option<u32>,
        options: &WorkerOptions,
        now: Timestamp,
    ) -> Option<Settle> {
        let attempt = lease.attempts().saturating_add(1);
        let settle = match self {
            Self::Settled | Self::Lost => return None,
            Self::Release => Settle::release(lease),
            Self::Done { response } => Settle::ack_with(lease, response),
            Self::Dead { why } => Settle::fail(lease, &why),
            Self::Postpone { after, why } => Settle::postpone(lease, bounded(after.max(POSTPONE_MIN)), &why).ok()?,
            Self::Unroutable { why, created_at } if now.since(created_at) < UNROUTABLE_KEPT => {
                Settle::abandon(lease, bounded(options.retry.delay(attempt)), &why).ok()?
            }
            Self::Unroutable { why, .. } => {
                return Self::retry(why).into_settle(lease, max_attempts, options, now);
            }
            Self::Retry { after, why, service } => {
                let policy = if service { &options.retry_services } else { &options.retry };
                if attempt >= max_attempts.unwrap_or(policy.attempts_max()) {
                    Settle::fail(lease, &why)
                } else {
                    let delay = after.unwrap_or_else(|| policy.delay(attempt));
                    Settle::abandon(lease, bounded(delay), &why).ok()?
                }
            }
        };
        Some(settle)
    }
}

/// A pause is never nothing and never for ever, whatever a handler or another service asks for.
fn bounded(delay: Duration) -> Duration {
    delay.clamp(Duration::from_millis(1), PAUSE_MAX)
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Self {
        match error.fate {
            Fate::Retry { after } => Self::Retry { after, why: error.message, service: false },
            Fate::Postpone { after } => Self::Postpone { after, why: error.message },
            Fate::Newer { since } => Self::Unroutable { why: error.message, created_at: since },
            Fate::Conflict => Self::retry(error.message),
            Fate::Outage => Self::Postpone { after: POSTPONE_MIN, why: error.message },
            Fate::Terminal => Self::Dead { why: error.message },
        }
    }
}
