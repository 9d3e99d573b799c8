//! Copies the database file at intervals, verifies each copy, and deletes old copies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use postroom::clock::Timestamp;
use postroom::sqlite::SqliteStore;
use postroom::store::Store;
use sha2::{Digest, Sha256};

use super::signals::Stopped;
use crate::database::absolute;

/// The longest pause before a failed copy is retried.
const AGAIN: Duration = Duration::from_secs(60);
/// The extension of a copy until it is complete.
const PARTIAL: &str = "partial";

/// How often the file is copied, where to, and how long copies are kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    pub(crate) every: Duration,
    pub(crate) keep: Duration,
    pub(crate) folder: PathBuf,
}

/// The scheduled backups of a file.
pub(crate) struct Backups {
    store: SqliteStore,
    plan: Plan,
    /// The start of the copies' names.
    stem: String,
}

impl Backups {
    /// Creates the folder, so that a plan that cannot work fails at the start.
    pub(crate) fn new(store: SqliteStore, plan: Plan) -> Result<Self> {
        make_folder(&plan.folder).with_context(|| format!("cannot create {}", plan.folder.display()))?;
        let stem = stem_of(store.path());
        Ok(Self { store, plan, stem })
    }

    /// Runs until the node stops. A copy in progress is then abandoned.
    pub(super) async fn run(self, stopped: Stopped) {
        tokio::select! {
            () = self.go_on() => {}
            () = stopped.wait() => {}
        }
    }

    async fn go_on(&self) {
        loop {
            let pause = match self.turn().await {
                Ok(pause) => pause,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(folder = %self.plan.folder.display(), error, "the backup failed");
                    self.plan.every.min(AGAIN)
                }
            };
            // There is only the time to wait for.
            #[expect(clippy::disallowed_methods, reason = "backups follow the real clock")]
            tokio::time::sleep(pause).await;
        }
    }

    /// Copies the file if a copy is due. Returns how long to wait for the next one.
    async fn turn(&self) -> Result<Duration> {
        let lock = File::create(self.plan.folder.join(format!(".{}.lock", self.stem)))?;
        // Another node on the same file is making a copy.
        if lock.try_lock().is_err() {
            return Ok(self.plan.every.min(AGAIN));
        }
        let now = self.store.clock().now();
        let mut copies = self.copies()?;
        // A copy from the future was made with a wrong clock. It does not count.
        let last = copies.iter().map(|(at, _)| *at).filter(|at| *at <= now).max();
        let rest = last.map(|last| self.plan.every.saturating_sub(now.since(last))).unwrap_or_default();
        if !rest.is_zero() {
            return Ok(rest);
        }
        let copy = self.copy(now).await?;
        tracing::info!(path = %copy.display(), "the database was backed up");
        // Delete only after a new copy succeeded, so that the last good copy always stays.
        copies.retain(|(at, _)| now.since(*at) > self.plan.keep);
        for (_, old) in copies {
            fs::remove_file(&old).with_context(|| format!("cannot delete {}", old.display()))?;
        }
        Ok(self.plan.every)
    }

    async fn copy(&self, now: Timestamp) -> Result<PathBuf> {
        let whole = self.plan.folder.join(name(&self.stem, now));
        self.store.backup(&whole, |_| {}).await?;
        Ok(whole)
    }

    /// The existing copies. Deletes partial copies of killed processes.
    fn copies(&self) -> Result<Vec<(Timestamp, PathBuf)>> {
        let mut copies = Vec::new();
        for entry in fs::read_dir(&self.plan.folder)? {
            let path = entry?.path();
            let Some(at) = made_at(&self.stem, &path).filter(|_| path.is_file()) else { continue };
            match path.extension().is_some_and(|extension| extension == PARTIAL) {
                true => fs::remove_file(&path)?,
                false => copies.push((at, path)),
            }
        }
        Ok(copies)
    }
}

/// The file's name and a few unique digits, so that several databases can share a backup folder.
fn stem_of(file: &Path) -> String {
    let place = fs::canonicalize(file).unwrap_or_else(|_| absolute(file));
    let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
    let digits: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digits}", file.file_stem().unwrap_or_default().to_string_lossy())
}

/// The default folder of the copies.
pub(crate) fn folder_beside(file: &Path) -> PathBuf {
    absolute(file).with_file_name("backups")
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// `shop-1f09d30c-20261115T170000Z.db`: sorting by name sorts by time.
fn name(stem: &str, at: Timestamp) -> String {
    let second = at.to_string().split('.').next().unwrap_or_default().trim_end_matches('Z').replace(['-', ':'], "");
    format!("{stem}-{second}Z.db")
}

/// The time of a copy or a partial copy, from its name.
fn made_at(stem: &str, path: &Path) -> Option<Timestamp> {
    let is_partial = path.extension().is_some_and(|extension| extension == PARTIAL);
    let path = if is_partial { path.with_extension("") } else { path.to_path_buf() };
    let is_ours = path.extension().is_some_and(|extension| extension == "db");
    let time = path.file_stem()?.to_str()?.strip_prefix(stem)?.strip_prefix('-')?;
    if !is_ours || time.len() != "20261115T170000Z".len() || !time.is_ascii() {
        return None;
    }
    let part = |from: usize, to: usize| &time[from..to];
    let time = [part(0, 4), "-", part(4, 6), "-", part(6, 11), ":", part(11, 13), ":", part(13, 16)].concat();
    time.parse().ok()
}

/// Syncs the folder, which makes a rename durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder).and_then(|folder| folder.sync_all()).context("cannot sync the folder")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use postroom::clock::{Clock, ManualClock};
    use postroom::sqlite::SqliteOptions;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const BEGIN: &str = "2026-11-15T17:00:00Z";

    async fn backups(folder: &Path, clock: &ManualClock) -> Backups {
        let options =
            SqliteOptions::new(folder.join("shop.db")).deploy_schema(true).clock(Clock::Manual(clock.clone()));
        let plan = Plan { every: HOUR, keep: 3 * HOUR, folder: folder.join("copies") };
        Backups::new(options.open().await.unwrap(), plan).unwrap()
    }

    /// Without the unique digits of the file, which differ in every test.
    fn names(backups: &Backups) -> Vec<String> {
        let copies = backups.copies().unwrap();
        let names = copies.iter().map(|(_, path)| path.file_name().unwrap().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.map(|name| name.replace(&backups.stem, "shop")).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_copy_is_made_when_one_is_due_and_kept_for_its_time() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(BEGIN.parse().unwrap()));
        let backups = backups(dir.path(), &clock).await;
        assert_eq!(backups.turn().await.unwrap(), HOUR);
        assert_eq!(names(&backups), ["shop-20261115T170000Z.db"]);
        clock.advance(HOUR / 4);
        assert_eq!(backups.turn().await.unwrap(), HOUR * 3 / 4, "the last one is young");
        for _ in 0..4 {
            clock.advance(HOUR);
            backups.turn().await.unwrap();
        }
        let kept = ["shop-20261115T181500Z.db", "shop-20261115T191500Z.db", "shop-20261115T201500Z.db"];
        assert_eq!(names(&backups), [&kept[..], &["shop-20261115T211500Z.db"]].concat());
        postroom::sqlite::restore_check(&backups.plan.folder.join(kept[0].replace("shop", &backups.stem))).unwrap();
    }

    #[tokio::test]
    async fn what_is_no_copy_of_ours_stays_and_a_part_of_one_goes() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(BEGIN.parse().unwrap()));
        let backups = backups(dir.path(), &clock).await;
        let others = ["shop.db", "shop-20261115T170000Z.db.gz", "other-20201115T170000Z.db", "shop-2020ä115T17000Z.db"];
        let partial = backups.plan.folder.join(format!("{}-20261115T160000Z.db.partial", backups.stem));
        for name in others.iter().map(|name| backups.plan.folder.join(name)).chain([partial.clone()]) {
            fs::write(name, "").unwrap();
        }
        backups.turn().await.unwrap();
        assert!(others.iter().all(|name| backups.plan.folder.join(name).exists()) && !partial.exists());
        assert_eq!(names(&backups), ["shop-20261115T170000Z.db"]);
    }

    #[tokio::test]
    async fn the_last_good_copy_outlives_one_that_fails() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(BEGIN.parse().unwrap()));
        let backups = backups(dir.path(), &clock).await;
        backups.turn().await.unwrap();
        clock.advance(10 * HOUR);
        // Blocks the next copy.
        fs::create_dir(backups.plan.folder.join(format!("{}-20261116T030000Z.db", backups.stem))).unwrap();
        assert!(backups.turn().await.is_err());
        assert_eq!(names(&backups)[0], "shop-20261115T170000Z.db");
    }

    #[tokio::test]
    async fn two_nodes_on_one_file_make_one_copy() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(BEGIN.parse().unwrap()));
        let (one, other) = (backups(dir.path(), &clock).await, backups(dir.path(), &clock).await);
        let (first, second) = tokio::join!(one.turn(), other.turn());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(names(&one).len(), 1);
    }

    #[tokio::test]
    async fn two_files_of_one_name_have_copies_of_their_own() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(BEGIN.parse().unwrap()));
        let mut copied = Vec::new();
        for place in ["one", "other"] {
            fs::create_dir(dir.path().join(place)).unwrap();
            let mut backups = backups(&dir.path().join(place), &clock).await;
            backups.plan.folder = dir.path().to_owned();
            backups.turn().await.unwrap();
            assert_eq!(names(&backups), ["shop-20261115T170000Z.db"]);
            copied.push(backups.copies().unwrap());
        }
        assert_ne!(copied[0], copied[1]);
    }
}
