//! How long finished messages are kept.

use std::time::Duration;

use crate::queue::{Queue, State};
use crate::support::error::{Error, Result};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long finished messages are kept. Older ones are deleted by maintenance.
///
/// | state | kept for |
/// |---|---|
/// | done | 7 days in the outbox, 30 days in the inbox |
/// | dead, expired | forever: somebody has to decide about them |
/// | dismissed | 30 days, in both |
/// | seen (inbox) | as long as done messages there, since it was seen last |
///
/// Payloads of more than 1 kB of done messages in the inbox are dropped after 7 days. Key, hash and answer stay.
///
/// The inbox recognises a duplicate while it keeps the message, so keep it for longer than any sender retries.
///
/// ```
/// use std::time::Duration;
/// use postroom::WorkerOptions;
/// use postroom::worker::Retention;
///
/// let day = Duration::from_secs(24 * 3600);
/// let retention = Retention::default().outbox_done(3 * day).dead(Some(90 * day)).expired(Some(90 * day));
/// let options = WorkerOptions::default().retention(retention);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    outbox_done: Duration,
    inbox_done: Duration,
    dead: Option<Duration>,
    expired: Option<Duration>,
    dismissed: Option<Duration>,
    /// With `None`, like done messages of the inbox.
    seen: Option<Duration>,
    /// With `None`, as long as the messages.
    inbox_payloads: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            outbox_done: 7 * DAY,
            inbox_done: 30 * DAY,
            dead: None,
            expired: None,
            dismissed: Some(30 * DAY),
            seen: None,
            inbox_payloads: Some(7 * DAY),
        }
    }
}

impl Retention {
    /// Keeps everything forever.
    pub fn for_ever() -> Self {
        Self {
            dismissed: None,
            inbox_payloads: None,
            ..Self::default().outbox_done(Duration::MAX).inbox_done(Duration::MAX)
        }
    }

    crate::setters! {
        /// Sets how long done messages of the outbox are kept; 7 days by default.
        pub fn outbox_done(mut self, kept: Duration) { self.outbox_done = kept; }

        /// Sets how long done messages of the inbox are kept; 30 days by default. It must be longer than any sender
        /// retries.
        pub fn inbox_done(mut self, kept: Duration) { self.inbox_done = kept; }

        /// Sets how long dead messages are kept, from when they died. `None` means forever, which is the default.
        pub fn dead(mut self, kept: Option<Duration>) { self.dead = kept; }

        /// Sets how long expired messages are kept, from when they expired. `None` means forever, which is the default.
        pub fn expired(mut self, kept: Option<Duration>) { self.expired = kept; }

        /// Sets how long dismissed messages are kept, from when they were dismissed; 30 days by default. `None` means
        /// forever.
        pub fn dismissed(mut self, kept: Option<Duration>) { self.dismissed = kept; }

        /// Sets how long messages of the inbox are kept that were only seen, from when they were last seen; by default
        /// as long as done ones.
        pub fn seen(mut self, kept: Duration) { self.seen = Some(kept); }

        /// Sets how long the payloads of done messages of the inbox are kept; 7 days by default. `None` means as long
        /// as the message. Payloads of up to 1 kB are kept as long as the message too: to drop them would cost more
        /// than it saves. The outbox keeps its payloads, so that messages can be redriven.
        pub fn inbox_payloads(mut self, kept: Option<Duration>) { self.inbox_payloads = kept; }
    }

    /// Returns for how long the inbox recognises a message at least, whether it is done, dead or dismissed. The same
    /// message arriving later counts as new.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use postroom::worker::Retention;
    /// let day = Duration::from_secs(24 * 3600);
    /// assert_eq!(Retention::default().known_for(), 30 * day);
    /// assert_eq!(Retention::default().dead(Some(14 * day)).known_for(), 14 * day);
    /// ```
    pub fn known_for(&self) -> Duration {
        [self.dead, self.dismissed].into_iter().flatten().fold(self.inbox_done, Duration::min)
    }

    /// Returns how long messages in that state are kept. `None` means forever.
    pub(crate) fn of(&self, queue: Queue, state: State) -> Option<Duration> {
        match (queue, state) {
            (Queue::Outbox, State::Done) => Some(self.outbox_done),
            (Queue::Inbox, State::Done) => Some(self.inbox_done),
            (Queue::Inbox, State::Seen) => Some(self.seen.unwrap_or(self.inbox_done)),
            (_, State::Dead) => self.dead,
            (_, State::Expired) => self.expired,
            (_, State::Dismissed) => self.dismissed,
            _ => None,
        }
    }

    /// Returns how long payloads are kept, if that is shorter than for the messages.
    pub(crate) fn dropped_early(&self) -> Option<Duration> {
        self.inbox_payloads.filter(|kept| *kept < self.inbox_done)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.inbox_done.is_zero() {
            return Err(Error::invalid(
                "messages of the inbox must be kept for longer than zero: otherwise no duplicate is recognised",
            ));
        }
        for (what, kept) in
            [("dead", self.dead), ("expired", self.expired), ("dismissed", self.dismissed), ("seen", self.seen)]
        {
            if kept == Some(Duration::ZERO) {
                return Err(Error::invalid(format!("{what} messages must be kept for longer than zero")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_kept_for_its_own_time() {
        let usual = Retention::default();
        let kept = |queue| State::ALL.map(|state| usual.of(queue, state));
        let [week, month] = [Some(7 * DAY), Some(30 * DAY)];
        assert_eq!(kept(Queue::Outbox), [None, None, week, None, None, None, None, month]);
        assert_eq!(kept(Queue::Inbox), [None, None, month, None, None, month, None, month]);
        let told = usual.inbox_done(DAY).dead(Some(2 * DAY)).expired(Some(3 * DAY)).dismissed(None);
        let kept = |state| told.of(Queue::Inbox, state);
        assert_eq!([State::Seen, State::Dead, State::Dismissed].map(kept), [Some(DAY), Some(2 * DAY), None]);
        assert_eq!(told.of(Queue::Outbox, State::Expired), Some(3 * DAY));
        assert_eq!(told.seen(4 * DAY).of(Queue::Inbox, State::Seen), Some(4 * DAY));
    }

    #[test]
    fn what_would_be_forgotten_at_once_is_refused() {
        assert!(Retention::default().outbox_done(Duration::ZERO).check().is_ok());
        let zero = Some(Duration::ZERO);
        for told in [
            Retention::default().inbox_done(Duration::ZERO),
            Retention::default().dead(zero),
            Retention::default().expired(zero),
            Retention::default().dismissed(zero),
            Retention::default().seen(Duration::ZERO),
        ] {
            assert!(told.check().is_err(), "{told:?}");
        }
    }
}
