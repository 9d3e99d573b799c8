//! The writer thread: one for each file, started by the first job, ended when idle. Jobs that wait together are
//! committed together: one fsync for all of them, and everyone is answered after it.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::clock::monotonic;
use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::guard::Guard;
use crate::sqlite::job::{Job, Ran};
use crate::sqlite::{Durability, connect};

/// A group closes at so many jobs, or after so long.
const GROUP_JOBS_MAX: usize = 512;
const GROUP_TIME_MAX: Duration = Duration::from_millis(5);
const STACK_BYTES: usize = 1 << 20;
/// So long a thread waits for more to do at first, and twice as long after each group that changed something: one that
/// was only asked whether there is work, in one of hundreds of stores, is soon gone.
const LINGER_FIRST: Duration = Duration::from_millis(100);

thread_local! {
    /// The writer this thread is, by its address; zero on any other thread.
    static WRITING_FOR: Cell<usize> = const { Cell::new(0) };
}

tokio::task_local! {
    static HANDLING_FOR: usize;
}

#[derive(Clone, Debug)]
pub(crate) struct Writer(Arc<Shared>);

struct Shared {
    path: PathBuf,
    durability: Durability,
    idle: Duration,
    line: Mutex<Line>,
    arrived: Condvar,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Box<dyn Job>>,
    running: bool,
    waiting: bool,
    /// Whoever waits for the thread to end; it does so when nothing is left to do.
    ending: Vec<oneshot::Sender<()>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Every file that has a writer in this process: two stores on one file share it instead of waiting for each other.
static WRITERS: Mutex<Option<HashMap<FileKey, Weak<Shared>>>> = Mutex::new(None);

/// The path, and which file it is: one that was put in its place is another.
type FileKey = (PathBuf, Option<(u64, u64)>);

impl Writer {
    pub(crate) fn of(path: PathBuf, durability: Durability, idle: Duration) -> Result<Self> {
        let mut writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
        let writers = writers.get_or_insert_default();
        writers.retain(|_, writer| writer.strong_count() > 0);
        let key = (path.clone(), connect::file_number(&path));
        if let Some(shared) = writers.get(&key).and_then(Weak::upgrade) {
            if shared.durability != durability {
                return Err(Error::invalid(format!(
                    "{} is open in this process with another durability; use the same one",
                    path.display()
                )));
            }
            return Ok(Self(shared));
        }
        let shared = Arc::new(Shared { path, durability, idle, line: Mutex::default(), arrived: Condvar::new() });
        writers.insert(key, Arc::downgrade(&shared));
        Ok(Self(shared))
    }

    /// Marks an async handler of this file, so that a call that would wait for the handler's own transaction is told.
    pub(crate) async fn in_handler<F: Future>(&self, future: F) -> F::Output {
        HANDLING_FOR.scope(self.address(), future).await
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Puts a job in line, and starts the thread if it is not running.
    pub(crate) fn submit(&self, job: Box<dyn Job>) -> Result<()> {
        self.check_outside()?;
        self.submit_unchecked(job)
    }

    /// Refuses a handler of this file: it would wait for itself.
    pub(crate) fn check_outside(&self) -> Result<()> {
        let this = self.address();
        if WRITING_FOR.get() == this || HANDLING_FOR.try_with(|&writer| writer == this).unwrap_or(false) {
            return Err(Error::new(
                ErrorKind::InsideHandler,
                "a handler called the store on its own: it would wait for itself. Use the handler's context instead",
            ));
        }
        Ok(())
    }

    /// Without asking who calls: for the handler's own transaction.
    pub(crate) fn submit_unchecked(&self, job: Box<dyn Job>) -> Result<()> {
        self.enter(|line| line.jobs.push_back(job))
    }

    /// In front of the others, for what cannot wait.
    pub(crate) fn submit_first(&self, job: Box<dyn Job>) -> Result<()> {
        self.enter(|line| line.jobs.push_front(job))
    }

    fn enter(&self, enter: impl FnOnce(&mut Line)) -> Result<()> {
        let mut line = self.0.lock();
        enter(&mut line);
        if line.waiting {
            line.waiting = false;
            self.0.arrived.notify_one();
        } else if !line.running {
            line.running = true;
            drop(line);
            return self.start();
        }
        Ok(())
    }

    /// Ends the thread when its work is done, and waits until its connection is closed.
    pub(crate) async fn end(&self) {
        let (ended, done) = oneshot::channel();
        self.tell_to_end(ended);
        // An error means that no thread was running.
        let _ = done.await;
    }

    fn tell_to_end(&self, ended: oneshot::Sender<()>) {
        let mut line = self.0.lock();
        if line.running {
            line.ending.push(ended);
            line.waiting = false;
            self.0.arrived.notify_one();
        }
    }

    fn start(&self) -> Result<()> {
        let (shared, this) = (self.0.clone(), self.address());
        let thread = std::thread::Builder::new().name("postroom-writer".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            WRITING_FOR.set(this);
            let _broken = Broken(&shared);
            shared.run();
        });
        if let Err(source) = started {
            let mut line = self.0.lock();
            line.running = false;
            line.jobs.clear();
            return Err(
                Error::new(ErrorKind::Unavailable, "no thread for the writer could be started").caused_by(source)
            );
        }
        Ok(())
    }
}

/// Jobs' panics are caught one by one. Should the thread itself break down, those in line are told instead of waiting
/// for ever, and the next job starts a new thread.
struct Broken<'a>(&'a Shared);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut line = self.0.lock();
            line.running = false;
            line.waiting = false;
            line.jobs.clear();
            line.ending.clear();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut open: Option<(Connection, Guard)> = None;
        let mut linger = LINGER_FIRST;
        while let Some(first) = self.next_job(&mut open, linger.min(self.idle)) {
            let conn = match open.take() {
                Some(conn) => Ok(conn),
                None => self.connect(),
            };
            match conn {
                Ok((conn, guard)) => {
                    let changes = conn.total_changes();
                    let health = Group { shared: self, conn: &conn, guard: &guard }.run(first);
                    if conn.total_changes() != changes {
                        linger = (linger * 2).min(self.idle);
                    }
                    if health == Health::Usable {
                        open = Some((conn, guard));
                    }
                }
                Err(error) => answer(first, Err(error)),
            }
        }
    }

    fn connect(&self) -> Result<(Connection, Guard)> {
        let conn = connect::writer(&self.path, self.durability, false)?;
        let guard = Guard::set_up(&conn)?;
        Ok((conn, guard))
    }

    /// Waits for a job; none after `linger`, and then the thread is over.
    fn next_job(&self, open: &mut Option<(Connection, Guard)>, linger: Duration) -> Option<Box<dyn Job>> {
        let mut line = self.lock();
        if line.jobs.is_empty() && line.ending.is_empty() {
            line.waiting = true;
            let idle = |line: &mut Line| line.jobs.is_empty() && line.ending.is_empty();
            let waited = self.arrived.wait_timeout_while(line, linger, idle);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
            line.waiting = false;
        }
        let job = line.jobs.pop_front();
        if job.is_none() {
            // Under the lock: whoever comes next starts a new thread, and finds the file closed.
            *open = None;
            line.running = false;
            for ended in line.ending.drain(..) {
                let _ = ended.send(());
            }
        }
        job
    }

    fn another_job(&self, may_be_session: bool) -> Option<Box<dyn Job>> {
        let mut line = self.lock();
        if line.jobs.front().is_some_and(|job| job.is_session() && !may_be_session) {
            return None;
        }
        line.jobs.pop_front()
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Usable,
    /// The disk or the file failed us: a new connection starts from what is really there.
    Suspect,
}

impl Health {
    fn after(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Constraint | ErrorKind::NotCommitted => Self::Usable,
            _ => Self::Suspect,
        }
    }
}

/// What is answered is dropped here when nobody waits for it any more, and may panic doing so.
fn answer(job: Box<dyn Job>, commit: Result<()>) {
    let _ = catch_unwind(AssertUnwindSafe(|| job.answer(commit)));
}

struct Group<'a> {
    shared: &'a Shared,
    conn: &'a Connection,
    guard: &'a Guard,
}

impl Group<'_> {
    fn run(&self, first: Box<dyn Job>) -> Health {
        if let Err(error) = self.begin() {
            answer(first, Err(error));
            return Health::Suspect;
        }
        let (ran, spoilt) = self.run_jobs(first);
        let commit = if spoilt { Err(super::job::lost()) } else { self.commit() };
        match commit {
            Ok(()) => {
                ran.into_iter().for_each(|job| answer(job, Ok(())));
                Health::Usable
            }
            Err(error) => {
                self.roll_back();
                self.one_by_one(ran, error)
            }
        }
    }

    fn run_jobs(&self, first: Box<dyn Job>) -> (Vec<Box<dyn Job>>, bool) {
        let started = monotonic();
        let mut ran: Vec<Box<dyn Job>> = Vec::new();
        let mut sessions_only = true;
        let mut next = Some(first);
        while let Some(mut job) = next {
            sessions_only &= job.is_session();
            let result = self.run_job(job.as_mut());
            ran.push(job);
            if result == Ran::Spoilt {
                return (ran, true);
            }
            if ran.len() >= GROUP_JOBS_MAX || started.elapsed() > GROUP_TIME_MAX {
                break;
            }
            // Whoever is in the group already must not wait for somebody's async code.
            next = self.shared.another_job(sessions_only);
        }
        (ran, false)
    }

    fn run_job(&self, job: &mut dyn Job) -> Ran {
        let ran = catch_unwind(AssertUnwindSafe(|| job.run(self.conn, self.guard)));
        if self.conn.is_autocommit() {
            return Ran::Spoilt;
        }
        ran.unwrap_or_else(|_| {
            self.guard.leave();
            Ran::Spoilt
        })
    }

    /// The group is undone; each job gets a transaction of its own, so that only the culprit fails.
    fn one_by_one(&self, jobs: Vec<Box<dyn Job>>, error: Error) -> Health {
        let mut health = Health::after(&error);
        let alone = jobs.len() == 1;
        let mut first_error = Some(error);
        for mut job in jobs {
            if alone {
                answer(job, Err(first_error.take().unwrap_or_else(super::job::lost)));
                continue;
            }
            if job.is_session() {
                // It cannot be run again from here, and the error is most likely not its own.
                answer(job, Err(super::job::lost()));
                continue;
            }
            let outcome = self.begin().and_then(|()| match self.run_job(job.as_mut()) {
                Ran::Well => self.commit(),
                Ran::Spoilt => Err(super::job::lost()),
            });
            if let Err(error) = &outcome {
                self.roll_back();
                health = health.max(Health::after(error));
            }
            answer(job, outcome);
        }
        health
    }

    // These are prepared anew each time: from a cache of prepared statements the user's code could take them unseen.
    fn begin(&self) -> Result<()> {
        Ok(self.conn.execute_batch("BEGIN IMMEDIATE")?)
    }

    fn commit(&self) -> Result<()> {
        Ok(self.conn.execute_batch("COMMIT")?)
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}
