//! Jobs that are committed together. None of them can make the others fail.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::enqueue::Enqueue;
use crate::db::sqlite::guard::Guard;
use crate::db::sqlite::job::{Job, Ran, lost, the_same};
use crate::db::sqlite::thread::Shared;
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};

/// A group closes when it has this many jobs, or after `GROUP_TIME_MAX`.
const GROUP_JOBS_MAX: usize = 512;
const GROUP_TIME_MAX: Duration = Duration::from_millis(5);
/// How long a group waits for the claim of a worker that it woke: less than the commit that this saves.
const CLAIM_WAIT: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    Usable,
    /// The disk or the file failed: a new connection starts from what is really stored.
    Suspect,
}

impl Health {
    fn after(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unsupported | ErrorKind::Corrupt | ErrorKind::Database => Self::Suspect,
            _ => Self::Usable,
        }
    }
}

pub(super) struct Group<'a> {
    pub(super) shared: &'a Shared,
    pub(super) conn: &'a Connection,
    pub(super) guard: &'a Guard,
    /// Whether the file is still the one that is open.
    pub(super) is_in_place: &'a dyn Fn() -> Result<()>,
    /// How long the last commit took.
    pub(super) commit_time: &'a Cell<Duration>,
}

impl Group<'_> {
    /// Runs a group in a transaction that has already begun.
    pub(super) fn run(&self, first: Box<dyn Job>) -> Health {
        let (ran, spoilt) = self.run_jobs(first);
        let commit = spoilt.map_or_else(|| self.commit(), Err);
        match commit.map(|()| (self.is_in_place)()) {
            Ok(Ok(())) => {
                ran.into_iter().for_each(|job| self.shared.answer(job, Ok(())));
                Health::Usable
            }
            // The commit went to a file that no longer has its name.
            Ok(Err(error)) => {
                ran.into_iter().for_each(|job| self.shared.answer(job, Err(the_same(&error))));
                Health::Suspect
            }
            Err(error) => {
                self.roll_back();
                self.one_by_one(ran, error)
            }
        }
    }

    fn run_jobs(&self, first: Box<dyn Job>) -> (Vec<Box<dyn Job>>, Option<Error>) {
        let started = monotonic();
        let mut ran: Vec<Box<dyn Job>> = Vec::new();
        let mut sessions_only = true;
        let mut next = Some(first);
        while let Some(job) = next {
            if job.is_wanted() {
                sessions_only &= job.is_session();
                let place = ran.len();
                ran.push(job);
                while ran.len() < GROUP_JOBS_MAX
                    && let Some(beside) = self.shared.job_beside(ran[place].as_mut())
                {
                    ran.push(beside);
                }
                if let Ran::Spoilt(error) = self.run_together(&mut ran[place..]) {
                    return (ran, Some(error));
                }
            } else {
                self.shared.answer(job, Err(given_up()));
            }
            if ran.len() >= GROUP_JOBS_MAX || started.elapsed() > GROUP_TIME_MAX {
                break;
            }
            // Its messages are handled while the next group runs. If commits take longer than that, they count more.
            if ran.last().is_some_and(|job| job.claimed_a_batch()) && started.elapsed() > self.commit_time.get() {
                break;
            }
            // Jobs that are already in the group must not wait for the async code of a session.
            next = self.shared.another_job(sessions_only);
            if next.is_none() && ran.last().is_some_and(|job| job.woke_a_worker()) {
                next = self.shared.job_within(CLAIM_WAIT);
            }
        }
        (ran, None)
    }

    fn run_job(&self, job: &mut dyn Job) -> Ran {
        self.checked(|| job.run(self.conn, self.guard))
    }

    /// Runs one job, or several that store messages.
    fn run_together(&self, jobs: &mut [Box<dyn Job>]) -> Ran {
        match jobs {
            [job] => self.run_job(job.as_mut()),
            jobs => self.checked(|| {
                let jobs = jobs.iter_mut().filter_map(|job| job.as_enqueue());
                Enqueue::run_together(self.conn, jobs.collect())
            }),
        }
    }

    /// Runs code of jobs, and makes sure that the transaction is still the one that was begun.
    fn checked(&self, run: impl FnOnce() -> Ran) -> Ran {
        let ran = catch_unwind(AssertUnwindSafe(run));
        let ran = ran.unwrap_or_else(|_| {
            self.guard.leave();
            Ran::Spoilt(lost())
        });
        match ran {
            Ran::Well if self.conn.is_autocommit() => Ran::Spoilt(lost()),
            ran => ran,
        }
    }

    /// Rolls the group back. Each job gets its own transaction, so that only the one at fault fails.
    fn one_by_one(&self, mut jobs: Vec<Box<dyn Job>>, error: Error) -> Health {
        let mut health = Health::after(&error);
        if jobs.len() <= 1 {
            if let Some(job) = jobs.pop() {
                self.shared.answer(job, Err(error));
            }
            return health;
        }
        // If another connection holds the lock now, only the first of them waits for it, not each in turn.
        let mut locked = None;
        for mut job in jobs {
            let outcome = if job.is_session() {
                // A session cannot be run again from here.
                Err(if error.kind() == ErrorKind::Unavailable { the_same(&error) } else { spoilt_by_another() })
            } else if !job.is_wanted() {
                Err(given_up())
            } else if let Some(error) = &locked {
                Err(the_same(error))
            } else if let Err(error) = self.begin() {
                locked = Some(the_same(&error));
                Err(error)
            } else {
                match self.run_job(job.as_mut()) {
                    Ran::Well => self.commit().and_then(|()| (self.is_in_place)()),
                    Ran::Spoilt(error) => Err(error),
                }
            };
            if let Err(error) = &outcome {
                self.roll_back();
                health = health.max(Health::after(error));
            }
            self.shared.answer(job, outcome);
        }
        health
    }

    // These statements are prepared each time: the user's code could take them unseen from a cache of prepared
    // statements.
    fn begin(&self) -> Result<()> {
        begin(self.conn)
    }

    fn commit(&self) -> Result<()> {
        let began = monotonic();
        self.conn.execute_batch("COMMIT")?;
        self.commit_time.set(began.elapsed());
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        self.shared.stores().iter().for_each(|store| store.rolled_back());
    }
}

pub(super) fn begin(conn: &Connection) -> Result<()> {
    #[cfg(feature = "testing")]
    super::statements::count(conn);
    Ok(conn.execute_batch("BEGIN IMMEDIATE")?)
}

pub(super) fn given_up() -> Error {
    Error::new(ErrorKind::NotCommitted, "its caller no longer waited for it; it was not run")
}

fn spoilt_by_another() -> Error {
    Error::new(
        ErrorKind::NotCommitted,
        "the commit failed because of another transaction in the same group; nothing of this one was stored",
    )
}
