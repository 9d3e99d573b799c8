//! Hearing the commits of other processes: a watch on the write-ahead log, one for all files of this process.
//!
//! The event comes before the commit can be seen, so the database is asked again and again for a short while after it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rusqlite::Connection;

use crate::clock::monotonic;
use crate::error::Result;
use crate::sqlite::connect;
use crate::store::Wake;

const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_LAST: Duration = Duration::from_micros(25_600);

/// A file that is being watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    log: PathBuf,
    id: u64,
}

struct Watching {
    id: u64,
    conn: Connection,
    version: i64,
    wakes: [Wake; 2],
}

struct Watch {
    watcher: Mutex<RecommendedWatcher>,
    files: Mutex<HashMap<PathBuf, Vec<Watching>>>,
}

static WATCH: OnceLock<Option<Watch>> = OnceLock::new();
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Rings `wakes` when another process commits to the database at `path`. None when the system cannot watch: polling
/// still finds the messages.
pub(crate) fn watch(path: &Path, wakes: [Wake; 2]) -> Option<Watched> {
    match try_watch(path, wakes) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the file cannot be watched; workers will poll it");
            None
        }
    }
}

fn try_watch(path: &Path, wakes: [Wake; 2]) -> Result<Option<Watched>> {
    let Some(watch) = WATCH.get_or_init(start) else { return Ok(None) };
    // An open connection keeps the log in place; reading once creates it.
    let conn = connect::reader(path)?;
    let version = data_version(&conn)?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    watch.files().entry(log.clone()).or_default().push(Watching { id, conn, version, wakes });
    let watched = Watched { log, id };
    let mut watcher = watch.watcher.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = watcher.watch(&watched.log, RecursiveMode::NonRecursive) {
        tracing::warn!(path = %watched.log.display(), %error, "the log cannot be watched; workers will poll");
    }
    Ok(Some(watched))
}

fn start() -> Option<Watch> {
    let (events, incoming) = mpsc::channel();
    let handler = move |event: notify::Result<notify::Event>| {
        if let Ok(event) = event
            && matches!(event.kind, EventKind::Modify(_))
        {
            event.paths.into_iter().for_each(|path| drop(events.send(path)));
        }
    };
    let watcher = notify::recommended_watcher(handler)
        .map_err(|error| tracing::warn!(%error, "files cannot be watched; workers will poll"))
        .ok()?;
    let thread = std::thread::Builder::new().name("postroom-watch".into()).stack_size(256 << 10);
    thread.spawn(move || listen(&incoming)).ok()?;
    Some(Watch { watcher: Mutex::new(watcher), files: Mutex::default() })
}

impl Watch {
    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<Watching>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, log: &Path) {
        for watching in self.files().get_mut(log).into_iter().flatten() {
            if !watching.wakes.iter().any(Wake::is_heard) {
                continue;
            }
            match data_version(&watching.conn) {
                Ok(version) if version != watching.version => {
                    watching.version = version;
                    watching.wakes.iter().for_each(Wake::ring);
                }
                _ => {}
            }
        }
    }
}

/// Asks after each event at once and then after growing pauses; another event starts the pauses again.
fn listen(events: &mpsc::Receiver<PathBuf>) {
    let mut due: HashMap<PathBuf, (Instant, Duration)> = HashMap::new();
    loop {
        let wait = due.values().map(|(at, _)| at.saturating_duration_since(monotonic())).min();
        match wait.map_or_else(|| events.recv().map_err(|_| RecvTimeoutError::Disconnected), |w| events.recv_timeout(w))
        {
            Ok(log) => drop(due.insert(log, (monotonic(), PAUSE_FIRST))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(Some(watch)) = WATCH.get() else { continue };
        let now = monotonic();
        for (log, (at, pause)) in &mut due {
            if *at <= now {
                watch.check(log);
                (*at, *pause) = (now + *pause, *pause * 2);
            }
        }
        due.retain(|_, (_, pause)| *pause <= PAUSE_LAST * 2);
    }
}

/// Changes whenever another connection has committed.
fn data_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(Some(watch)) = WATCH.get() else { return };
        let mut files = watch.files();
        let Some(watchings) = files.get_mut(&self.log) else { return };
        watchings.retain(|watching| watching.id != self.id);
        if watchings.is_empty() {
            files.remove(&self.log);
            let mut watcher = watch.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = watcher.unwatch(&self.log);
        }
    }
}
