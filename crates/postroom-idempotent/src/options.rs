//! The options for marking messages.

use std::ops::RangeInclusive;
use std::time::Duration;

use postroom_core::support::error::{Error, Result};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// When a message is marked as handled.
///
/// The guide on idempotency explains what a crash does in each mode.
///
/// ```
/// use postroom::idempotent::{IdempotentOptions, Marking};
///
/// assert_eq!(Marking::default(), Marking::InTransaction);
/// let at_most_once = IdempotentOptions::default().marking(Marking::before_handling());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Marking {
    /// In the handler's own transaction: what the handler writes there is stored with the mark, or neither is. A
    /// message that is delivered again after a crash or a failure is handled again, and takes effect once.
    #[default]
    InTransaction,
    /// In a separate transaction, before the handler runs: **a message whose handler did not finish is not handled
    /// again**, so it is handled at most once. Use it for effects that no transaction can cover and that are worse
    /// twice than never.
    #[non_exhaustive]
    BeforeHandling {
        /// Removes the mark when the handler fails, so that the message can be handled again. After a crash the mark
        /// stays.
        release_claim_on_error: bool,
    },
}

impl Marking {
    /// Marks a message before the handler runs. After a failure the mark stays.
    pub fn before_handling() -> Self {
        Self::BeforeHandling { release_claim_on_error: false }
    }
}

/// The options of an [`Idempotent`](crate::Idempotent): how it marks messages, and how long it keeps the marks.
///
/// ```
/// use postroom::idempotent::{IdempotentOptions, Marking};
/// use std::time::Duration;
///
/// let options = IdempotentOptions::default()
///     .marking(Marking::before_handling())
///     .release_claim_on_error(true)
///     .retention(Duration::from_secs(14 * 24 * 3600))
///     .cleanup_interval(Duration::from_secs(600));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IdempotentOptions {
    pub(crate) marking: Marking,
    pub(crate) retention: Duration,
    pub(crate) cleanup_interval: Duration,
    pub(crate) enabled: bool,
}

impl Default for IdempotentOptions {
    fn default() -> Self {
        let (retention, cleanup_interval) = (7 * DAY, 3600 * SECOND);
        Self { marking: Marking::default(), retention, cleanup_interval, enabled: true }
    }
}

impl IdempotentOptions {
    postroom_core::setters! {
        /// Sets when a message is marked; in the handler's own transaction by default.
        pub fn marking(mut self, marking: Marking) { self.marking = marking; }

        /// Marks before handling, and sets whether a failure removes the mark.
        pub fn release_claim_on_error(mut self, release_claim_on_error: bool) {
            self.marking = Marking::BeforeHandling { release_claim_on_error };
        }

        /// Sets how long marks are kept, from a second to 3650 days; 7 days by default. It must be longer than the
        /// broker or the sender may take to deliver a message again. After that, a duplicate is handled like a new
        /// message.
        pub fn retention(mut self, retention: Duration) { self.retention = retention; }

        /// Sets how often old marks are deleted, from a second to 365 days; every hour by default. A run starts it in
        /// the background when this much time has passed since the last time. Old marks of a handler that no longer
        /// runs stay.
        pub fn cleanup_interval(mut self, interval: Duration) { self.cleanup_interval = interval; }

        /// Sets whether messages are marked at all. Without marks, the handler runs for every delivery, in its own
        /// transaction.
        pub fn enabled(mut self, enabled: bool) { self.enabled = enabled; }
    }

    /// Returns whether the mark is set before the handler runs.
    pub(super) fn is_marked_before(&self) -> bool {
        self.enabled && self.marking != Marking::InTransaction
    }

    pub(super) fn checked(self) -> Result<Self> {
        within("the retention of marks", self.retention, SECOND..=3650 * DAY)?;
        within("the cleanup interval of marks", self.cleanup_interval, SECOND..=365 * DAY)?;
        Ok(self)
    }
}

fn within(what: &str, given: Duration, allowed: RangeInclusive<Duration>) -> Result<()> {
    if allowed.contains(&given) {
        return Ok(());
    }
    let days = allowed.end().as_secs() / DAY.as_secs();
    Err(Error::invalid(format!("{what} must be from 1 second to {days} days, not {given:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_for_a_week_and_looked_through_every_hour() -> Result<()> {
        let usual = IdempotentOptions::default().checked()?;
        assert_eq!((usual.retention, usual.cleanup_interval), (7 * DAY, 3600 * SECOND));
        Ok(())
    }

    #[test]
    fn times_that_make_no_sense_are_refused_by_name() {
        let given = |options: IdempotentOptions| options.checked().err().map(|error| error.to_string());
        let usual = IdempotentOptions::default;
        for (options, expected) in [
            (usual().retention(Duration::ZERO), "the retention of marks must be from 1 second to 3650 days, not 0ns"),
            (
                usual().retention(3651 * DAY),
                "the retention of marks must be from 1 second to 3650 days, not 315446400s",
            ),
            (
                usual().cleanup_interval(Duration::ZERO),
                "the cleanup interval of marks must be from 1 second to 365 days, not 0ns",
            ),
            (
                usual().cleanup_interval(366 * DAY),
                "the cleanup interval of marks must be from 1 second to 365 days, not 31622400s",
            ),
        ] {
            assert_eq!(given(options).as_deref(), Some(expected));
        }
        for options in [usual().retention(SECOND).cleanup_interval(SECOND), usual().retention(3650 * DAY)] {
            assert_eq!(given(options), None);
        }
    }
}
