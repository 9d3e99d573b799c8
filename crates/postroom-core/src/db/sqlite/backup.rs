//! Online backup: a copy as of one moment, while others go on writing.

use std::io;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::db::sqlite::blocking::blocking;
use crate::db::sqlite::{SqliteStore, connect};
use crate::support::error::{Error, ErrorKind, Result};

const PAGES_PER_STEP: i32 = 2000;
/// The suffix of a copy's name until it is complete.
const PARTIAL: &str = ".partial";

/// How far a backup has come.
///
/// ```
/// # async fn f(store: postroom::sqlite::SqliteStore) -> postroom::Result<()> {
/// use postroom::sqlite::BackupProgress;
///
/// let show = |BackupProgress { pages_done, pages_total, .. }| println!("{pages_done} of {pages_total} pages");
/// store.backup("shop-copy.db", show).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Pages copied.
    pub pages_done: u64,
    /// Pages in total.
    pub pages_total: u64,
}

impl SqliteStore {
    /// Copies the database to a new file at `to`, as of one moment, and checks the copy. Other tables in the file are
    /// copied too. `progress` is called after each step.
    pub async fn backup(
        &self,
        to: impl AsRef<Path>,
        mut progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<()> {
        self.0.writer.follow().await?;
        let (place, to) = (self.0.writer.place().clone(), to.as_ref().to_path_buf());
        blocking(move || {
            if to.exists() {
                return Err(Error::invalid(format!("{} exists already; name a new file", to.display())));
            }
            let partial = connect::beside(&to, PARTIAL);
            let source = place.reader()?.conn;
            create_new(&partial)?;
            copy(&source, &partial, &mut progress).and_then(|()| name(&partial, &to)).inspect_err(|_| {
                // An incomplete copy is deleted.
                let _ = std::fs::remove_file(&partial);
            })
        })
        .await
    }
}

/// Creates the file so that only its owner can read it. If it already exists, another program is writing it, or a
/// program that was killed left it behind.
fn create_new(partial: &Path) -> Result<()> {
    if partial.exists() {
        let why = "another backup is writing it, or was interrupted; delete it if none is running";
        return Err(Error::invalid(format!("{} exists already: {why}", partial.display())));
    }
    connect::create_private(partial)
}

/// Gives a copy its final name, once it is complete, checked and on the disk.
fn name(partial: &Path, to: &Path) -> Result<()> {
    let name = || {
        std::fs::File::open(partial)?.sync_all()?;
        // Unlike a rename, this replaces nothing. Some file systems do not support it.
        match std::fs::hard_link(partial, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => std::fs::rename(partial, to)?,
            Ok(()) => std::fs::remove_file(partial)?,
        }
        #[cfg(unix)]
        {
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            std::fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    name().map_err(|error: io::Error| {
        let message = format!("cannot finish the copy at {}: {error}", to.display());
        Error::new(ErrorKind::Unavailable, message).caused_by(error)
    })
}

fn copy(source: &Connection, to: &Path, progress: &mut dyn FnMut(BackupProgress)) -> Result<()> {
    // Without a transaction, the copy would start again whenever another connection writes.
    source.execute_batch("BEGIN; PRAGMA schema_version")?;
    let mut copy = connect::blank(to)?;
    copy_pages(source, &mut copy, progress)?;
    copy.close().map_err(|(_, error)| error)?;
    restore_check(to)
}

fn copy_pages(source: &Connection, copy: &mut Connection, progress: &mut dyn FnMut(BackupProgress)) -> Result<()> {
    let backup = Backup::new(source, copy)?;
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let count = backup.progress();
        let [total, remaining] = [count.pagecount, count.remaining].map(|pages| u64::try_from(pages).unwrap_or(0));
        progress(BackupProgress { pages_done: total - remaining, pages_total: total });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => return Err(Error::new(ErrorKind::Unavailable, "another connection has locked the copy")),
        }
    }
}

/// Checks that a copy can be opened and is complete.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let copy = dir.path().join("copy.db");
/// # let store = postroom::sqlite::SqliteOptions::new(dir.path().join("shop.db")).deploy_schema(true).open().await?;
/// store.backup(&copy, |_| {}).await?;
/// // On the day it is needed, before it takes the place of the original:
/// postroom::sqlite::restore_check(&copy)?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub fn restore_check(path: &Path) -> Result<()> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let verdict: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, format!("{} is damaged: {verdict}", path.display())))
}
