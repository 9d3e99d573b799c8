//! One file: when it is queried, and when it is only watched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use rusqlite::Connection;

use crate::db::sqlite::connect;
use crate::db::sqlite::place::{Opened, Place};
use crate::store::Wake;
use crate::support::clock::monotonic;
use crate::support::error::Result;

const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_LAST: Duration = Duration::from_micros(25_600);
/// A commit becomes visible after its fsync, without another event, and a busy disk takes its time.
const SETTLING_LAST: Duration = Duration::from_secs(3);
/// After a commit was noticed the file rests: longer each time, while one commit follows another.
const REST_FIRST: Duration = Duration::from_micros(500);
const REST_LAST: Duration = Duration::from_millis(10);
const CALM: Duration = Duration::from_millis(20);

pub(super) struct File {
    place: Arc<Place>,
    pub(super) log: PathBuf,
    pub(super) mode: Mode,
    /// When something last happened.
    pub(super) quiet_since: Instant,
    wakes: [Wake; 2],
    open: Option<(Opened, i64)>,
    rest: Duration,
    rang_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// Nobody waits: the file is not watched.
    Dormant,
    Watched,
    /// Watched again, and still queried: data written before the watch may be committed only now, without an event.
    Settling {
        at: Instant,
        pause: Duration,
    },
    /// Something was written: queried at `at`, then after `pause`.
    Asking {
        at: Instant,
        pause: Duration,
    },
    /// A commit was noticed; watched again at `until`.
    Resting {
        until: Instant,
    },
    /// Closed; its folder is watched.
    Asleep,
}

impl Mode {
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Dormant | Self::Watched | Self::Asleep => None,
            Self::Settling { at: due, .. } | Self::Asking { at: due, .. } | Self::Resting { until: due } => Some(due),
        }
    }

    pub(super) fn is_watched(self) -> bool {
        matches!(self, Self::Watched | Self::Settling { .. })
    }

    /// The mode of a file that was watched again and has not changed since.
    fn settling(now: Instant, pause: Duration) -> Self {
        if pause <= SETTLING_LAST { Self::Settling { at: now + pause, pause } } else { Self::Watched }
    }

    /// Whether nothing is expected to happen to the file now.
    pub(super) fn is_quiet(self) -> bool {
        match self {
            Self::Watched | Self::Dormant => true,
            Self::Settling { pause, .. } => pause > PAUSE_LAST,
            _ => false,
        }
    }
}

impl File {
    pub(super) fn new(place: Arc<Place>, wakes: [Wake; 2]) -> Self {
        let log = connect::log_of(place.path());
        let quiet_since = monotonic();
        Self { place, log, mode: Mode::Dormant, quiet_since, wakes, open: None, rest: REST_FIRST, rang_at: None }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Whether events of the file system matter to it.
    pub(super) fn hears(&self) -> bool {
        self.mode.is_watched() || matches!(self.mode, Mode::Asleep)
    }

    /// Whether anybody waits for its commits.
    pub(super) fn is_heard(&self) -> bool {
        self.wakes.iter().any(Wake::is_heard)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Like [`close`](Self::close), because its file is no longer in place.
    pub(super) fn leave(&mut self) -> bool {
        if let Some((opened, _)) = &self.open {
            opened.empty_log();
        }
        self.close()
    }

    /// Closes the file; false if it was not open.
    pub(super) fn close(&mut self) -> bool {
        self.open.take().is_some()
    }

    /// The mode that follows `mode`.
    pub(super) fn step(&mut self, mode: Mode, watcher: &mut RecommendedWatcher, now: Instant) -> Result<Mode> {
        self.quiet_since = now;
        let pause = match mode {
            // The commit that caused the event may be visible already, or not yet.
            Mode::Asleep => {
                self.open()?;
                self.wakes.iter().for_each(Wake::ring);
                PAUSE_FIRST
            }
            Mode::Watched => PAUSE_FIRST,
            Mode::Asking { pause, .. } if pause < PAUSE_LAST => (pause * 2).max(PAUSE_FIRST),
            Mode::Settling { pause, .. } => {
                return Ok(if self.has_changed()? { self.rang(now) } else { Mode::settling(now, pause * 2) });
            }
            // The watch comes first and then the query, so that a commit in between is seen either way.
            Mode::Dormant | Mode::Asking { .. } | Mode::Resting { .. } => {
                let is_new = self.open()?;
                if let Err(error) = watcher.watch(&self.log, RecursiveMode::NonRecursive) {
                    tracing::warn!(path = %self.log.display(), %error, "the log cannot be watched; workers will poll");
                }
                // It is unknown what was committed before the first query.
                let is_news = self.has_changed()? || is_new;
                return Ok(if is_news { self.rang(now) } else { Mode::settling(now, PAUSE_FIRST) });
            }
        };
        if self.has_changed()? {
            return Ok(self.rang(now));
        }
        Ok(Mode::Asking { at: now + pause, pause })
    }

    fn rang(&mut self, now: Instant) -> Mode {
        self.wakes.iter().for_each(Wake::ring);
        let calm = self.rang_at.is_none_or(|last| now.saturating_duration_since(last) > CALM);
        self.rest = if calm { REST_FIRST } else { (self.rest * 2).min(REST_LAST) };
        self.rang_at = Some(now);
        Mode::Resting { until: now + self.rest }
    }

    /// Opens a connection. It keeps the log in place; reading once creates the log.
    fn open(&mut self) -> Result<bool> {
        if self.open.is_some() {
            return Ok(false);
        }
        let opened = self.place.reader()?;
        let version = data_version(&opened.conn)?;
        self.open = Some((opened, version));
        Ok(true)
    }

    pub(super) fn has_changed(&mut self) -> Result<bool> {
        let Some((opened, version)) = &mut self.open else { return Ok(false) };
        let now = data_version(&opened.conn)?;
        Ok(std::mem::replace(version, now) != now)
    }
}

/// A number that changes whenever another connection has committed.
fn data_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_whose_fsync_takes_seconds_is_not_missed() {
        let start = monotonic();
        let (mut mode, mut waited, mut queries) = (Mode::settling(start, PAUSE_FIRST), Duration::ZERO, 0);
        while let Mode::Settling { at, pause } = mode {
            (waited, queries) = (at - start, queries + 1);
            mode = Mode::settling(at, pause * 2);
        }
        assert!(matches!(mode, Mode::Watched));
        assert!(waited > Duration::from_secs(2) && queries < 20, "{queries} queries in {waited:?}");
    }
}
