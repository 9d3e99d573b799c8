//! A wall clock that the monotonic clock carries on. Pure: the caller passes in what both clocks show.

use std::time::Duration;

use super::{ClockJump, JumpState, Timestamp, micros};

/// The wall clock has jumped if it differs from the expected time by more than this.
const TOLERANCE: Duration = Duration::from_secs(5);
/// Two clocks drift apart while nobody compares them: by at most this fraction of the time in between.
const DRIFT: u32 = 1000;
/// A reading that took longer than this says little about what the clock shows now.
const SLOW: Duration = Duration::from_secs(1);
/// A jump is accepted when a look this long after the first one still finds it.
const CONFIRM_AFTER: Duration = Duration::from_secs(10);
/// A clock that jumps all the time is logged at most this often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How far the wall clock is ahead of the carried time, or behind it, while a jump is not confirmed. Messages get the
/// benefit of the doubt: leases and lifetimes start at the later of the two times, and end by the earlier.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Doubt {
    ahead: Duration,
    behind: Duration,
}

impl Doubt {
    /// Returns the time that leases, times to live and retention start at.
    pub(crate) fn late(self, now: Timestamp) -> Timestamp {
        now.plus(self.ahead)
    }

    /// Returns the time by which leases end, and messages expire or are deleted.
    pub(crate) fn early(self, now: Timestamp) -> Timestamp {
        now.minus(self.behind)
    }

    pub(super) fn wall(self, now: Timestamp) -> Timestamp {
        now.plus(self.ahead).minus(self.behind)
    }
}

/// The readings of both clocks in one look. Monotonic times are counted from an arbitrary fixed point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// What the wall clock showed.
    pub(super) said: Timestamp,
    /// How long ago the wall clock may have shown it.
    pub(super) took: Duration,
    /// What the monotonic clock shows.
    pub(super) at: Duration,
}

#[derive(Debug)]
pub(super) struct Carried {
    said: Timestamp,
    at: Duration,
    doubted: Option<Doubted>,
    last: Option<Noticed>,
    accepted: u64,
    is_news: bool,
    logged_at: Option<Duration>,
}

/// A jump that is not confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Doubted {
    since: Duration,
    off: i64,
}

#[derive(Clone, Copy, Debug)]
struct Noticed {
    at: Duration,
    off: i64,
    state: JumpState,
}

impl Carried {
    pub(super) fn new(said: Timestamp, at: Duration) -> Self {
        Self { said, at, doubted: None, last: None, accepted: 0, is_news: false, logged_at: None }
    }

    /// Returns the time, without a jump that is not confirmed.
    pub(super) fn now(&self, at: Duration) -> Timestamp {
        self.said.plus(at.saturating_sub(self.at))
    }

    pub(super) fn doubt(&self) -> Doubt {
        let off = self.doubted.map_or(0, |doubted| doubted.off);
        let span = Duration::from_micros(off.unsigned_abs());
        match off {
            0.. => Doubt { ahead: span, behind: Duration::ZERO },
            _ => Doubt { ahead: Duration::ZERO, behind: span },
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Compares the wall clock with the carried time.
    pub(super) fn look(&mut self, look: Look) {
        let expected = self.now(look.at);
        // The wall clock showed it up to `took` ago, so by now it shows a time in this range.
        let shows = expected.clamp(look.said, look.said.plus(look.took));
        let off = shows.as_micros().saturating_sub(expected.as_micros());
        // A fast reading is used as it is, so the carried time is never ahead of the clock.
        let heard = if look.took <= SLOW { look.said } else { shows };
        if is_same(off, 0, look.at.saturating_sub(self.at)) {
            if self.doubted.take().is_some() {
                self.conclude(JumpState::TakenBack);
            }
            (self.said, self.at) = (heard, look.at);
            return;
        }
        match self.doubted {
            Some(doubted) if is_same(off, doubted.off, look.at.saturating_sub(doubted.since)) => {
                if look.at.saturating_sub(doubted.since) >= CONFIRM_AFTER {
                    self.doubted = None;
                    self.accepted += 1;
                    self.conclude(JumpState::Accepted);
                    (self.said, self.at) = (heard, look.at);
                }
            }
            _ => self.notice(off, look.at),
        }
    }

    fn notice(&mut self, off: i64, at: Duration) {
        self.doubted = Some(Doubted { since: at, off });
        self.last = Some(Noticed { at, off, state: JumpState::Doubted });
        self.is_news = self.logged_at.is_none_or(|logged| at.saturating_sub(logged) >= LOG_EVERY);
        if self.is_news {
            self.logged_at = Some(at);
        }
    }

    fn conclude(&mut self, state: JumpState) {
        if let Some(last) = &mut self.last {
            // If the beginning of a jump was not logged, its end is not logged either.
            self.is_news |= self.logged_at == Some(last.at);
            last.state = state;
        }
    }

    pub(super) fn jump(&self, at: Duration) -> Option<ClockJump> {
        self.last.map(|last| ClockJump {
            is_ahead: last.off > 0,
            by: Duration::from_micros(last.off.unsigned_abs()),
            ago: at.saturating_sub(last.at),
            state: last.state,
        })
    }

    pub(super) fn take_news(&mut self, at: Duration) -> Option<ClockJump> {
        std::mem::take(&mut self.is_news).then(|| self.jump(at)).flatten()
    }
}

/// Returns whether two offsets are the same, apart from the drift in between.
fn is_same(off: i64, other: i64, meanwhile: Duration) -> bool {
    off.saturating_sub(other).unsigned_abs() <= micros(TOLERANCE + meanwhile / DRIFT).unsigned_abs()
}

#[cfg(test)]
mod tests;
