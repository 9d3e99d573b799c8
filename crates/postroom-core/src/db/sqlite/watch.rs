//! Notices the commits of other processes: one watch on the write-ahead logs of all files of this process.
//!
//! The event comes before the commit is visible, so the database is queried repeatedly for a short while after it. A
//! busy log would cause thousands of events a second, so a file is not watched while it is being queried, nor while no
//! worker waits for it.
//!
//! A query needs an open connection, and their number is limited. Beyond the limit, the files that were quiet the
//! longest are closed, and their folders are watched instead: a log comes and goes with the connections to its
//! database, its folder stays.

mod file;
mod folders;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, Watcher};
use tokio::sync::oneshot;

use crate::db::sqlite::place::Place;
use crate::store::Wake;
use crate::support::clock::monotonic;
use file::{File, Mode};
use folders::Folders;

/// How many files are kept open, even if nothing happens in them.
const OPEN_MAX: usize = 32;
/// How long to wait before a file that could not be watched is tried again.
const TROUBLE: Duration = Duration::from_secs(1);

/// A file that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    id: u64,
}

/// Messages to the watching thread.
enum News {
    Changed(PathBuf),
    Armed(u64),
    Added(u64, Arc<Place>, [Wake; 2]),
    /// Another file replaces this one, so this one has to be closed.
    Replaced(u64, mpsc::Sender<()>),
    Dropped(u64, Option<oneshot::Sender<()>>),
}

static THREAD: OnceLock<Option<mpsc::Sender<News>>> = OnceLock::new();
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Signals `wakes` when another process commits to the database at `place`. `None` if the system cannot watch: polling
/// still finds the messages.
pub(crate) fn watch(place: Arc<Place>, wakes: [Wake; 2]) -> Option<Watched> {
    let thread = THREAD.get_or_init(start).as_ref()?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    for wake in &wakes {
        let thread = thread.clone();
        wake.when_armed(move || drop(thread.send(News::Armed(id))));
    }
    thread.send(News::Added(id, place, wakes)).ok()?;
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

impl Watched {
    /// Closes the file, because another one replaces it. It is watched again shortly after.
    pub(crate) fn let_go(&self) {
        if let Some(Some(thread)) = THREAD.get() {
            let (told, done) = mpsc::channel();
            if thread.send(News::Replaced(self.id, told)).is_ok() {
                let _ = done.recv_timeout(TROUBLE);
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
            && matches!(event.kind, EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any))
        {
            let logs = event.paths.into_iter().filter(|path| path.as_os_str().as_encoded_bytes().ends_with(b"-wal"));
            logs.for_each(|log| drop(events.send(News::Changed(log))));
        }
    };
    let watcher = notify::recommended_watcher(handler)
        .map_err(|error| tracing::warn!(%error, "files cannot be watched; workers will poll"))
        .ok()?;
    let thread = std::thread::Builder::new().name("postroom-watch".into()).stack_size(256 << 10);
    thread.spawn(move || Watching::new(watcher).run(&incoming)).ok()?;
    Some(news)
}

struct Watching {
    watcher: RecommendedWatcher,
    folders: Folders,
    files: HashMap<u64, File>,
    by_log: HashMap<PathBuf, Vec<u64>>,
    /// When each file is due for its next step.
    due: BTreeSet<(Instant, u64)>,
    open: usize,
}

impl Watching {
    fn new(watcher: RecommendedWatcher) -> Self {
        Self {
            watcher,
            folders: Folders::default(),
            files: HashMap::new(),
            by_log: HashMap::new(),
            due: BTreeSet::new(),
            open: 0,
        }
    }

    fn run(mut self, news: &mpsc::Receiver<News>) {
        loop {
            // Due steps run even if there is always another message.
            self.step_due();
            let heard = match self.due.first() {
                Some((at, _)) => news.recv_timeout(at.saturating_duration_since(monotonic())),
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match heard {
                Ok(News::Changed(log)) => {
                    let ids = self.by_log.get(&log).cloned().unwrap_or_default();
                    ids.into_iter().for_each(|id| self.changed(id));
                }
                Ok(News::Armed(id)) => self.step(id, |file| matches!(file.mode, Mode::Dormant)),
                Ok(News::Added(id, place, wakes)) => self.added(id, File::new(place, wakes)),
                Ok(News::Replaced(id, told)) => {
                    self.replaced(id);
                    let _ = told.send(());
                }
                Ok(News::Dropped(id, told)) => {
                    self.dropped(id);
                    told.map(|told| told.send(()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn added(&mut self, id: u64, file: File) {
        self.by_log.entry(file.log.clone()).or_default().push(id);
        self.files.insert(id, file);
    }

    fn dropped(&mut self, id: u64) {
        self.set(id, Mode::Dormant);
        let Some(file) = self.files.remove(&id) else { return };
        self.open -= usize::from(file.is_open());
        if let Some(ids) = self.by_log.get_mut(&file.log) {
            ids.retain(|other| *other != id);
        }
        self.by_log.retain(|_, ids| !ids.is_empty());
        self.unwatch(&file.log);
    }

    fn replaced(&mut self, id: u64) {
        self.set(id, Mode::Resting { until: monotonic() + TROUBLE });
        let Some(file) = self.files.get_mut(&id) else { return };
        self.open -= usize::from(file.leave());
        let log = file.log.clone();
        self.unwatch(&log);
    }

    fn changed(&mut self, id: u64) {
        if self.files.get(&id).is_some_and(|file| file.mode.is_watched()) {
            self.set(id, Mode::Watched);
        }
        self.step(id, File::hears);
    }

    /// Stops watching a log. Two stores on one file share a watch: the other store goes on querying.
    fn unwatch(&mut self, log: &Path) {
        let _ = self.watcher.unwatch(log);
        let now = monotonic();
        for id in self.by_log.get(log).cloned().unwrap_or_default() {
            if self.files.get(&id).is_some_and(|file| file.mode.is_watched()) {
                self.set(id, Mode::Asking { at: now, pause: Duration::ZERO });
            }
        }
    }

    /// Sets a file's mode. It changes only here, so that the other fields stay consistent with it.
    fn set(&mut self, id: u64, mode: Mode) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let was = std::mem::replace(&mut file.mode, mode);
        was.due().map(|at| self.due.remove(&(at, id)));
        mode.due().map(|at| self.due.insert((at, id)));
        if matches!(was, Mode::Asleep) && !matches!(mode, Mode::Asleep) {
            self.folders.leave(&mut self.watcher, &file.log);
        }
    }

    fn step_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = monotonic();
        let due: Vec<u64> = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        due.into_iter().for_each(|id| self.step(id, |file| file.mode.due().is_some_and(|at| at <= now)));
    }

    /// Takes a file one step further, if `applies` is true for it.
    fn step(&mut self, id: u64, applies: impl Fn(&File) -> bool) {
        let Some(file) = self.files.get(&id).filter(|file| applies(file)) else { return };
        let (was, is_heard, log) = (file.mode, file.is_heard(), file.log.clone());
        if matches!(was, Mode::Watched) || was.is_watched() && !is_heard {
            self.set(id, Mode::Dormant);
            self.unwatch(&log);
        }
        if !is_heard {
            return self.set(id, Mode::Dormant);
        }
        let now = monotonic();
        let Some(file) = self.files.get_mut(&id) else { return };
        let was_open = file.is_open();
        let mode = file.step(was, &mut self.watcher, now).unwrap_or_else(|error| {
            tracing::warn!(path = %file.path().display(), %error, "the file cannot be watched now; workers poll it");
            Mode::Resting { until: now + TROUBLE }
        });
        self.open += usize::from(file.is_open() && !was_open);
        self.set(id, mode);
        // It may have been watched again, and have changed since.
        if matches!(mode, Mode::Resting { .. }) {
            self.unwatch(&log);
        }
        while self.open > OPEN_MAX && self.close_the_quietest() {}
    }

    /// Closes the file that has been quiet the longest. If a worker waits for it, its folder is watched instead. False
    /// if there is none to close.
    fn close_the_quietest(&mut self) -> bool {
        let may_close = |file: &File| file.is_open() && file.mode.is_quiet();
        let quiet = self.files.iter().filter(|(_, file)| may_close(file));
        let Some(id) = quiet.min_by_key(|(_, file)| file.quiet_since).map(|(id, _)| *id) else { return false };
        let Some(file) = self.files.get_mut(&id) else { return false };
        if matches!(file.mode, Mode::Dormant) {
            self.open -= usize::from(file.close());
            return true;
        }
        // The folder is watched first, and then the file is queried once more, so that no commit is missed.
        if !self.folders.enter(&mut self.watcher, &file.log) {
            return false;
        }
        let (log, changed) = (file.log.clone(), file.has_changed().unwrap_or(true));
        self.open -= usize::from(file.close());
        self.set(id, Mode::Asleep);
        self.unwatch(&log);
        if changed {
            self.step(id, File::hears);
        }
        true
    }
}
