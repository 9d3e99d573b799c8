//! The loop of the writer thread: it opens the file, runs one group of jobs after the other, and ends when idle.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::db::sqlite::Durability;
use crate::db::sqlite::error::is_busy;
use crate::db::sqlite::group::{Group, Health, begin, given_up};
use crate::db::sqlite::guard::Guard;
use crate::db::sqlite::job::{Job, lost, the_same};
use crate::db::sqlite::line::{Line, Waiting};
use crate::db::sqlite::log::Checkpoints;
use crate::db::sqlite::patience::{self, BUSY_TIME};
use crate::db::sqlite::place::{Opened, Place};
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};

/// How long a thread waits for more jobs at first. The time doubles after each group that changed something. A thread
/// that only checked for work, in one of hundreds of stores, ends soon.
const LINGER_FIRST: Duration = Duration::from_millis(100);

pub(super) struct Shared {
    pub(super) place: Arc<Place>,
    pub(super) durability: Durability,
    idle: Duration,
    line: Mutex<Line>,
    pub(super) arrived: Condvar,
    stores: Mutex<Vec<Weak<dyn OnFile>>>,
}

/// A store on the writer's file, as the writer sees it.
pub(crate) trait OnFile: Send + Sync {
    /// Called when the database was unreachable just now.
    fn note_outage(&self);

    /// Called when a transaction of the writer was rolled back.
    fn rolled_back(&self);

    /// Whether the store can work with the tables of a file that replaced its own.
    fn check_schema(&self, conn: &Connection) -> Result<()>;

    /// Closes whatever else than the writer the store has open on a file that is no longer in place.
    fn leave_readers(&self);
}

/// The open connection of the writer.
struct Open {
    to: Opened,
    guard: Guard,
    checkpoints: Checkpoints,
    commit_time: Cell<Duration>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.place.path()).finish_non_exhaustive()
    }
}

/// Panics of jobs are caught one by one. If the thread itself panics, the waiting jobs get an error instead of waiting
/// forever, and the next job starts a new thread.
pub(super) struct Broken<'a>(pub(super) &'a Shared);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut line = self.0.lock();
            line.running = false;
            line.waiting = false;
            line.ending.clear();
            let jobs = line.take_all();
            drop(line);
            drop(jobs);
        }
    }
}

impl Shared {
    pub(super) fn new(place: Place, durability: Durability, idle: Duration) -> Self {
        let (line, arrived) = (Mutex::default(), Condvar::new());
        Self { place: Arc::new(place), durability, idle, line, arrived, stores: Mutex::default() }
    }

    /// From now on, the writer informs this store.
    pub(super) fn add(&self, store: Weak<dyn OnFile>) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(store);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stores(&self) -> Vec<Arc<dyn OnFile>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    /// Answers a job's caller. If the caller no longer waits, the answer is dropped here, and the drop may panic.
    pub(super) fn answer(&self, job: Box<dyn Job>, commit: Result<()>) {
        let kind = commit.as_ref().err().map(Error::kind).or_else(|| job.failed_as());
        if kind == Some(ErrorKind::Unavailable) {
            self.stores().iter().for_each(|store| store.note_outage());
        }
        let _ = catch_unwind(AssertUnwindSafe(|| job.answer(commit)));
    }

    pub(super) fn run(&self) {
        let mut open: Option<Open> = None;
        let mut linger = LINGER_FIRST;
        // Whether another connection held the lock at the last attempt.
        let mut was_locked = false;
        while let Some(first) = self.next_job(&mut open, linger.min(self.idle)) {
            let asked = if was_locked { first.since } else { monotonic() };
            let begun = patience::until(asked + BUSY_TIME, || self.begin(&mut open));
            was_locked = begun.as_ref().is_err_and(is_busy);
            match (begun, open.as_mut()) {
                (Ok(()), Some(now_open)) => {
                    let changes = now_open.to.conn.total_changes();
                    let health = self.run_group(now_open, first.job);
                    if now_open.to.conn.total_changes() != changes {
                        linger = (linger * 2).min(self.idle);
                    }
                    if health == Health::Suspect {
                        self.close(open.take());
                    }
                }
                (begun, _) => {
                    open = open.filter(|_| was_locked);
                    let latest = if was_locked { asked } else { monotonic() };
                    self.refuse(first, latest, &begun.err().unwrap_or_else(lost));
                }
            }
        }
    }

    fn run_group(&self, open: &mut Open, first: Box<dyn Job>) -> Health {
        let is_in_place = || self.place.check(open.to.file);
        let group = Group {
            shared: self,
            conn: &open.to.conn,
            guard: &open.guard,
            is_in_place: &is_in_place,
            commit_time: &open.commit_time,
        };
        let health = group.run(first);
        if health == Health::Usable {
            open.checkpoints.after_commit(&open.to.conn);
        }
        health
    }

    /// Closes a connection that failed, or whose file may be gone.
    fn close(&self, open: Option<Open>) {
        if let Some(open) = open.filter(|open| self.place.check(open.to.file).is_err()) {
            open.to.empty_log();
        }
    }

    /// Begins a transaction on the file that is in place. If the file was replaced, everything that is open on the old
    /// one is closed: the next job opens the new one.
    fn begin(&self, open: &mut Option<Open>) -> Result<()> {
        if let Some(now_open) = open
            && let Err(error) = self.place.check(now_open.to.file)
        {
            let path = self.place.path().display();
            tracing::error!(%path, %error, "the database file is no longer the one that was opened");
            self.stores().iter().for_each(|store| store.leave_readers());
            now_open.to.empty_log();
            *open = None;
            return Err(error);
        }
        if open.is_none() {
            *open = Some(self.connect()?);
        }
        open.as_ref().map_or(Ok(()), |open| begin(&open.to.conn))
    }

    fn connect(&self) -> Result<Open> {
        let has_changed = self.place.has_changed();
        if has_changed {
            self.stores().iter().for_each(|store| store.leave_readers());
        }
        // The file was open before, so any error with it may pass.
        let to = self.place.writer(self.durability).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Error::new(ErrorKind::Unavailable, error.to_string()).caused_by(error),
            _ => error,
        })?;
        if has_changed {
            self.stores().iter().try_for_each(|store| store.check_schema(&to.conn))?;
            tracing::warn!(path = %self.place.path().display(), "another database file is in use from now on");
        }
        let (guard, checkpoints) = (Guard::set_up(&to.conn)?, Checkpoints::set_up(&to.conn)?);
        self.place.accept(&to);
        Ok(Open { to, guard, checkpoints, commit_time: Cell::default() })
    }

    /// Answers a job that no transaction could begin, and with it all jobs that have waited for the same lock since
    /// then.
    fn refuse(&self, first: Waiting, latest: Instant, error: &Error) {
        // Jobs that came a moment later have waited long enough by now, too.
        let latest = monotonic().checked_sub(BUSY_TIME).map_or(latest, |ago| ago.max(latest));
        let others = self.lock().take_until(latest);
        for waiting in [first].into_iter().chain(others) {
            self.answer(waiting.job, Err(the_same(error)));
        }
    }

    /// Waits for a job; `None` after `linger`, and then the thread ends.
    fn next_job(&self, open: &mut Option<Open>, linger: Duration) -> Option<Waiting> {
        let mut line = self.lock();
        let mut has_waited = false;
        loop {
            if line.is_empty() && line.ending.is_empty() && !has_waited {
                has_waited = true;
                line.waiting = true;
                let idle = |line: &mut Line| line.is_empty() && line.ending.is_empty();
                let waited = self.arrived.wait_timeout_while(line, linger, idle);
                line = waited.unwrap_or_else(PoisonError::into_inner).0;
                line.waiting = false;
            }
            match (line.pop(), open.take()) {
                (Some(waiting), now_open) => {
                    *open = now_open;
                    if waiting.job.is_wanted() {
                        return Some(waiting);
                    }
                    drop(line);
                    self.answer(waiting.job, Err(given_up()));
                    line = self.lock();
                }
                // Closing may write to the disk, so it happens outside the lock.
                (None, Some(mut now_open)) => {
                    drop(line);
                    now_open.checkpoints.at_the_end(&now_open.to.conn);
                    self.close(Some(now_open));
                    line = self.lock();
                }
                // Under the lock: the next caller starts a new thread, and finds the file closed.
                (None, None) => {
                    line.running = false;
                    for ended in line.ending.drain(..) {
                        let _ = ended.send(());
                    }
                    return None;
                }
            }
        }
    }

    pub(super) fn another_job(&self, may_be_session: bool) -> Option<Box<dyn Job>> {
        self.lock().pop_for_group(may_be_session).map(|waiting| waiting.job)
    }

    /// Does the same as [`Shared::another_job`], and waits a moment for it. Going to sleep would take longer.
    pub(super) fn job_within(&self, wait: Duration) -> Option<Box<dyn Job>> {
        let started = monotonic();
        while started.elapsed() < wait {
            std::thread::yield_now();
            if let Some(job) = self.another_job(false) {
                return Some(job);
            }
        }
        None
    }

    pub(super) fn job_beside(&self, job: &mut dyn Job) -> Option<Box<dyn Job>> {
        self.lock().pop_beside(job).map(|waiting| waiting.job)
    }
}
