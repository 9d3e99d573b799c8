//! A jump of a wall clock, as it is reported.

use std::fmt;
use std::time::Duration;

/// The state of a jump.
///
/// ```
/// use postroom::clock::{ClockJump, JumpState};
///
/// fn is_believed(jump: &ClockJump) -> bool {
///     jump.state == JumpState::Accepted
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum JumpState {
    /// It was seen, but not confirmed yet. It is ignored for now.
    Doubted,
    /// It was confirmed. The new time is used.
    Accepted,
    /// The wall clock came back before the jump was confirmed.
    TakenBack,
}

/// A jump of a wall clock: somebody set it, or the machine slept.
///
/// ```
/// use std::time::Duration;
/// use postroom::clock::{Clock, JumpState, ManualClock, Timestamp};
///
/// let hands = ManualClock::new(Timestamp::from_micros(0));
/// let clock = Clock::Manual(hands.clone());
/// hands.set(Timestamp::from_micros(3_600_000_000));
/// assert_eq!(clock.now(), Timestamp::from_micros(0), "a jump is ignored at first");
///
/// hands.advance(Duration::from_secs(10));
/// let jump = clock.jump().unwrap();
/// assert_eq!((jump.state, jump.by), (JumpState::Accepted, Duration::from_secs(3600)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClockJump {
    /// Whether the clock went forward rather than back.
    pub is_ahead: bool,
    /// How far the clock jumped.
    pub by: Duration,
    /// How long ago the jump was first seen.
    pub ago: Duration,
    /// The state of the jump.
    pub state: JumpState,
}

impl fmt::Display for ClockJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.is_ahead { "ahead" } else { "back" };
        write!(f, "the clock jumped {} s {way}, {} s ago; ", self.by.as_secs(), self.ago.as_secs())?;
        f.write_str(match self.state {
            JumpState::Doubted => "until this is confirmed, the time goes on without the jump",
            JumpState::Accepted => "the new time was confirmed and is used",
            JumpState::TakenBack => "it came back, and the jump was ignored",
        })
    }
}
