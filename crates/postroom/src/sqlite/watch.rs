//! Hearing the commits of other processes: a watch on the write-ahead log, one for all files of this process.
//!
//! The event comes before the commit can be seen, so the database is asked again and again for a short while after it.
//! A busy log would bring thousands of events a second, so a file is not watched while it is being asked, nor while no
//! worker waits for it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::clock::monotonic;
use crate::error::Result;
use crate::sqlite::connect;
use crate::store::Wake;

const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_LAST: Duration = Duration::from_micros(25_600);
/// After a commit was heard the file rests: longer each time, while one commit follows the other.
const REST_FIRST: Duration = Duration::from_micros(500);
const REST_LAST: Duration = Duration::from_millis(10);
/// A file that could not be watched is tried again after this.
const TROUBLE: Duration = Duration::from_secs(1);
const CALM: Duration = Duration::from_millis(20);

/// A file that can be watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    id: u64,
}

/// What the watching thread is told.
enum News {
    Changed(PathBuf),
    Armed(u64),
    Added(u64, PathBuf, [Wake; 2]),
    Dropped(u64, Option<oneshot::Sender<()>>),
}

static THREAD: OnceLock<Option<mpsc::Sender<News>>> = OnceLock::new();
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Rings `wakes` when another process commits to the database at `path`. None when the system cannot watch: polling
/// still finds the messages.
pub(crate) fn watch(path: &Path, wakes: [Wake; 2]) -> Option<Watched> {
    let thread = THREAD.get_or_init(start).as_ref()?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    for wake in &wakes {
        let thread = thread.clone();
        wake.when_armed(move || drop(thread.send(News::Armed(id))));
    }
    thread.send(News::Added(id, path.to_path_buf(), wakes)).ok()?;
    Some(Watched { id })
}

impl Watched {
    /// Stops watching, and waits until the file is closed.
    pub(crate) async fn end(&self) {
        if let Some(Some(thread)) = THREAD.get() {
            let (told, done) = oneshot::channel();
            if thread.send(News::Dropped(self.id, Some(told))).is_ok() {
                let _ = done.await;
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(Some(thread)) = THREAD.get() {
            let _ = thread.send(News::Dropped(self.id, None));
        }
    }
}

fn start() -> Option<mpsc::Sender<News>> {
    let (news, incoming) = mpsc::channel();
    let events = news.clone();
    let handler = move |event: notify::Result<notify::Event>| {
        if let Ok(event) = event
            && matches!(event.kind, EventKind::Modify(_))
        {
            event.paths.into_iter().for_each(|path| drop(events.send(News::Changed(path))));
        }
    };
    let watcher = notify::recommended_watcher(handler)
        .map_err(|error| tracing::warn!(%error, "files cannot be watched; workers will poll"))
        .ok()?;
    let thread = std::thread::Builder::new().name("postroom-watch".into()).stack_size(256 << 10);
    thread.spawn(move || Watching { watcher, files: HashMap::new() }.run(&incoming)).ok()?;
    Some(news)
}

struct Watching {
    watcher: RecommendedWatcher,
    files: HashMap<u64, File>,
}

struct File {
    path: PathBuf,
    log: PathBuf,
    wakes: [Wake; 2],
    open: Option<(Connection, i64)>,
    mode: Mode,
    rest: Duration,
    rang_at: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Mode {
    /// Nobody waits: not watched.
    Dormant,
    Watched,
    /// Something was written: asked at `at`, then after `pause`.
    Asking {
        at: Instant,
        pause: Duration,
    },
    /// A commit was heard; watched again at `until`.
    Resting {
        until: Instant,
    },
}

impl Watching {
    fn run(mut self, news: &mpsc::Receiver<News>) {
        loop {
            let next = self.files.values().filter_map(File::due).min();
            let heard = match next {
                Some(at) => news.recv_timeout(at.saturating_duration_since(monotonic())),
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match heard {
                Ok(News::Changed(log)) => self.changed(&log),
                Ok(News::Armed(id)) => self.step(id, |file, _| matches!(file.mode, Mode::Dormant)),
                Ok(News::Added(id, path, wakes)) => drop(self.files.insert(id, File::new(path, wakes))),
                Ok(News::Dropped(id, told)) => {
                    self.dropped(id);
                    told.map(|told| told.send(()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = monotonic();
                    let due: Vec<u64> =
                        self.files.iter().filter(|(_, f)| f.due() <= Some(now)).map(|(id, _)| *id).collect();
                    due.into_iter().for_each(|id| self.step(id, |file, now| file.due() <= Some(now)));
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn changed(&mut self, log: &Path) {
        let changed: Vec<u64> = self.files.iter().filter(|(_, file)| file.log == log).map(|(id, _)| *id).collect();
        for id in changed {
            self.step(id, |file, _| matches!(file.mode, Mode::Watched));
        }
    }

    fn dropped(&mut self, id: u64) {
        if let Some(file) = self.files.remove(&id) {
            self.unwatch(&file.log);
        }
    }

    /// Two stores on one file have one watch between them: the other one goes on asking for itself.
    fn unwatch(&mut self, log: &Path) {
        let _ = self.watcher.unwatch(log);
        let now = monotonic();
        for file in self.files.values_mut().filter(|file| file.log == log && matches!(file.mode, Mode::Watched)) {
            file.mode = Mode::Asking { at: now, pause: Duration::ZERO };
        }
    }

    /// Takes a file one step further, if `applies`.
    fn step(&mut self, id: u64, applies: impl Fn(&File, Instant) -> bool) {
        let now = monotonic();
        let Some(file) = self.files.get_mut(&id).filter(|file| applies(file, now)) else { return };
        if matches!(file.mode, Mode::Watched) {
            file.mode = Mode::Asking { at: now, pause: Duration::ZERO };
            let log = file.log.clone();
            self.unwatch(&log);
        }
        let Some(file) = self.files.get_mut(&id) else { return };
        if !file.wakes.iter().any(Wake::is_heard) {
            file.mode = Mode::Dormant;
            return;
        }
        file.mode = file.step(&mut self.watcher, now).unwrap_or_else(|error| {
            tracing::warn!(path = %file.path.display(), %error, "the file cannot be watched now; workers poll it");
            Mode::Resting { until: now + TROUBLE }
        });
        // It may have been watched again, and have changed meanwhile.
        if matches!(file.mode, Mode::Resting { .. }) {
            let log = file.log.clone();
            self.unwatch(&log);
        }
    }
}

impl File {
    fn new(path: PathBuf, wakes: [Wake; 2]) -> Self {
        let log = connect::log_of(&path);
        Self { path, log, wakes, open: None, mode: Mode::Dormant, rest: REST_FIRST, rang_at: None }
    }

    fn due(&self) -> Option<Instant> {
        match self.mode {
            Mode::Dormant | Mode::Watched => None,
            Mode::Asking { at: due, .. } | Mode::Resting { until: due } => Some(due),
        }
    }

    fn step(&mut self, watcher: &mut RecommendedWatcher, now: Instant) -> Result<Mode> {
        let pause = match self.mode {
            Mode::Asking { pause, .. } if pause < PAUSE_LAST => (pause * 2).max(PAUSE_FIRST),
            // Watched again first and asked then: what commits in between is seen either way.
            Mode::Dormant | Mode::Watched | Mode::Asking { .. } | Mode::Resting { .. } => {
                let is_new = self.open()?;
                if let Err(error) = watcher.watch(&self.log, RecursiveMode::NonRecursive) {
                    tracing::warn!(path = %self.log.display(), %error, "the log cannot be watched; workers will poll");
                }
                // Nobody knows what was committed before the first look.
                return Ok(if self.has_changed()? || is_new { self.rang(now) } else { Mode::Watched });
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

    /// An open connection keeps the log in place; reading once creates it.
    fn open(&mut self) -> Result<bool> {
        if self.open.is_some() {
            return Ok(false);
        }
        let conn = connect::reader(&self.path)?;
        let version = data_version(&conn)?;
        self.open = Some((conn, version));
        Ok(true)
    }

    fn has_changed(&mut self) -> Result<bool> {
        let Some((conn, version)) = &mut self.open else { return Ok(false) };
        let now = data_version(conn)?;
        Ok(std::mem::replace(version, now) != now)
    }
}

/// Changes whenever another connection has committed.
fn data_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}
