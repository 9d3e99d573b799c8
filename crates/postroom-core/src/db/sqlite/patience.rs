//! How long a connection waits for a lock that another one holds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::support::clock::monotonic;

/// A caller learns after about this long that the database is locked.
pub(crate) const BUSY_TIME: Duration = Duration::from_secs(5);
/// How long to wait before a locked database is tried again.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_micros(250);
/// A pause takes longer than requested: this many of them take at least [`BUSY_TIME`].
const BUSY_TRIES: i32 = 20_000;

thread_local! {
    /// When this thread stops waiting, if a limit is set.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `code`. Its statements wait for locks until `at`, and no longer.
pub(crate) fn until<T>(at: Instant, code: impl FnOnce() -> T) -> T {
    let _reset = Reset(UNTIL.replace(Some(at)));
    code()
}

struct Reset(Option<Instant>);

impl Drop for Reset {
    fn drop(&mut self) {
        UNTIL.set(self.0);
    }
}

/// Whether a wait that began at `begun` has lasted long enough.
pub(crate) fn is_over(begun: Instant) -> bool {
    let now = monotonic();
    now >= UNTIL.get().unwrap_or(begun + BUSY_TIME)
}

/// The busy handler of every connection: whether to try again after this many tries.
pub(crate) fn ask_again(tries: i32) -> bool {
    std::thread::sleep(BUSY_PAUSE);
    match UNTIL.get() {
        Some(until) => monotonic() < until,
        None => tries < BUSY_TRIES,
    }
}
