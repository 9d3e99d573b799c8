//! The writer thread: one for each file, started by the first job, ended when idle. Jobs that wait together are
//! committed together: one fsync for all of them, and each caller gets its answer after it.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::db::sqlite::Durability;
use crate::db::sqlite::job::{Job, the_same, verb_job};
use crate::db::sqlite::line::{JOBS_MAX, Line, Waiting};
use crate::db::sqlite::place::Place;
use crate::db::sqlite::thread::{Broken, OnFile, Shared};
use crate::support::error::{Error, ErrorKind, Result};

const STACK_BYTES: usize = 1 << 20;

thread_local! {
    /// The writer that this thread belongs to, by its address; zero on any other thread.
    static WRITING_FOR: Cell<usize> = const { Cell::new(0) };
}

tokio::task_local! {
    static HANDLING_FOR: usize;
}

#[derive(Clone, Debug)]
pub(crate) struct Writer(Arc<Shared>);

/// Every file that has a writer in this process: two stores on one file share it instead of waiting for each other.
static WRITERS: Mutex<Option<HashMap<PathBuf, Weak<Shared>>>> = Mutex::new(None);

impl Writer {
    pub(crate) fn of(path: &Path, durability: Durability, idle: Duration) -> Result<Self> {
        let mut writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
        let writers = writers.get_or_insert_default();
        writers.retain(|_, writer| writer.strong_count() > 0);
        if let Some(shared) = writers.get(path).and_then(Weak::upgrade) {
            if shared.durability != durability {
                return Err(Error::invalid(format!(
                    "{} is open in this process with another durability; use the same one",
                    path.display()
                )));
            }
            return Ok(Self(shared));
        }
        let shared = Arc::new(Shared::new(Place::new(path.to_path_buf()), durability, idle));
        writers.insert(path.to_path_buf(), Arc::downgrade(&shared));
        Ok(Self(shared))
    }

    /// The location of the file.
    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.0.place
    }

    /// From now on, the store is informed of outages, and of a file that replaced its own.
    pub(crate) fn add(&self, store: Weak<dyn OnFile>) {
        self.0.add(store);
    }

    /// Opens the file that is in place now, if it is not the same as before. In a handler this does nothing, because
    /// the handler would wait for itself.
    pub(crate) async fn follow(&self) -> Result<()> {
        let mut followed = Ok(());
        // The first job may only close the old file.
        for _ in 0..2 {
            if !self.0.place.has_changed() || self.check_outside().is_err() {
                return Ok(());
            }
            let (job, answer) = verb_job(|_| Ok(()), None);
            self.submit_first(job)?;
            followed = answer.await.unwrap_or_else(|_| Err(broken_down()));
        }
        followed
    }

    /// Closes whatever this process has open on a file that is no longer in place.
    pub(crate) async fn leave(&self) {
        self.0.stores().iter().for_each(|store| store.leave_readers());
        self.end().await;
    }

    /// Marks an async handler of this file, so that a call that would wait for the handler's own transaction gets an
    /// error.
    pub(crate) async fn in_handler<F: Future>(&self, future: F) -> F::Output {
        HANDLING_FOR.scope(self.address(), future).await
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Submits a job, and starts the thread if it is not running.
    pub(crate) fn submit(&self, job: Box<dyn Job>) -> Result<()> {
        self.check_outside()?;
        self.submit_unchecked(job)
    }

    /// Refuses a call from a handler of this file: it would wait for itself.
    pub(crate) fn check_outside(&self) -> Result<()> {
        let this = self.address();
        if WRITING_FOR.get() == this || HANDLING_FOR.try_with(|&writer| writer == this).unwrap_or(false) {
            return Err(Error::new(
                ErrorKind::InsideHandler,
                "a handler called the store directly and would wait for itself. Use the handler's context instead",
            ));
        }
        Ok(())
    }

    /// Submits a job without checking who calls, for the handler's own transaction.
    pub(crate) fn submit_unchecked(&self, job: Box<dyn Job>) -> Result<()> {
        let line = self.0.lock();
        if line.is_full() {
            let path = self.0.place.path().display();
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("too many jobs are waiting for the writer of {path}: {JOBS_MAX}; try again later"),
            ));
        }
        self.enter(line, |line| line.push_back(Waiting::new(job)))
    }

    /// Submits an urgent job before the others.
    pub(crate) fn submit_first(&self, job: Box<dyn Job>) -> Result<()> {
        self.enter(self.0.lock(), |line| line.push_front(Waiting::new(job)))
    }

    fn enter(&self, mut line: MutexGuard<'_, Line>, enter: impl FnOnce(&mut Line)) -> Result<()> {
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
            let jobs = line.take_all();
            drop(line);
            let error = Error::new(ErrorKind::Unavailable, "the writer thread could not be started");
            jobs.into_iter().for_each(|waiting| self.0.answer(waiting.job, Err(the_same(&error))));
            return Err(error.caused_by(source));
        }
        Ok(())
    }
}

pub(super) fn broken_down() -> Error {
    Error::new(ErrorKind::Unavailable, "the writer thread panicked; see the log for the panic")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rusqlite::Connection;

    use super::*;
    use crate::db::sqlite::{SqliteOptions, SqliteStore, SqliteTx};

    const TABLE: &str = "CREATE TABLE blobs (it BLOB)";
    const SMALL: &str = "INSERT INTO blobs VALUES (1)";
    const LARGE: &str = "INSERT INTO blobs VALUES (zeroblob(30000000))";

    async fn store(dir: &tempfile::TempDir) -> SqliteStore {
        let store = SqliteOptions::new(dir.path().join("a.db")).deploy_schema(true).open().await.unwrap();
        store.write(|tx| Ok(tx.execute_batch(TABLE)?)).await.unwrap();
        store
    }

    async fn on_writer<T: Send + 'static>(
        store: &SqliteStore,
        verb: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = verb_job(verb, None);
        store.0.writer.submit(job).unwrap();
        answer.await.unwrap()
    }

    #[tokio::test]
    async fn the_line_is_bounded_and_renewals_of_leases_still_come_in() {
        let dir = tempfile::tempdir().unwrap();
        let (store, (let_go, wait)) = (store(&dir).await, mpsc::channel::<()>());
        let (begin, begun) = oneshot::channel();
        let mut begin = Some(begin);
        let hold = move |_: &Connection| {
            begin.take().map(|begin| begin.send(()));
            Ok(wait.recv().is_err())
        };
        let (job, held) = verb_job(hold, None);
        store.0.writer.submit(job).unwrap();
        begun.await.unwrap();
        let mut answers = Vec::new();
        let refused = loop {
            let (job, answer) = verb_job(|_| Ok(()), None);
            match store.0.writer.submit(job) {
                Ok(()) => answers.push(answer),
                Err(error) => break error,
            }
        };
        assert_eq!((answers.len(), refused.kind()), (JOBS_MAX, ErrorKind::Unavailable));
        assert!(refused.to_string().contains("too many jobs are waiting for the writer"), "{refused}");
        let (job, renewed) = verb_job(|_| Ok(()), None);
        store.0.writer.submit_first(job).unwrap();
        drop(let_go);
        assert!(held.await.unwrap().unwrap());
        renewed.await.unwrap().unwrap();
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
    }

    /// Commits a session in one group with `sql`, which fails, and returns the error of the session.
    async fn session_beside(store: &SqliteStore, sql: &'static str) -> Error {
        let mut session = SqliteTx::new(store.0.clone(), Duration::from_secs(10));
        session.run(|conn| conn.execute_batch(SMALL)).await.unwrap();
        let other = store.write(move |tx| Ok(tx.execute_batch(sql)?));
        let (refused, ended) = tokio::join!(other, async {
            // Polled after the other, which is waiting for the writer by now.
            session.commit(None).await
        });
        refused.unwrap_err();
        ended.unwrap_err()
    }

    #[tokio::test]
    async fn a_session_is_told_why_its_group_could_not_commit() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir).await;
        on_writer(&store, |conn| Ok(conn.execute_batch("PRAGMA max_page_count = 200")?)).await.unwrap();
        let full = session_beside(&store, LARGE).await;
        assert_eq!(full.kind(), ErrorKind::Unavailable, "{full}");
        let rolled_back = "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1); \
                           INSERT OR ROLLBACK INTO t VALUES (1)";
        let neighbour = session_beside(&store, rolled_back).await;
        assert_eq!(neighbour.kind(), ErrorKind::NotCommitted, "{neighbour}");
    }

    #[tokio::test]
    async fn commits_wait_for_the_disk_itself_where_a_plain_fsync_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir).await;
        for name in ["fullfsync", "checkpoint_fullfsync"] {
            let ask = move |conn: &Connection| Ok(conn.pragma_query_value(None, name, |row| row.get::<_, bool>(0))?);
            assert!(on_writer(&store, ask).await.unwrap(), "{name}");
        }
    }
}
