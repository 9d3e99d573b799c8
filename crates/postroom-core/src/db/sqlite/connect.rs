//! Opens a file: checks the library and that the file is SQLite, and sets the pragmas that the store's guarantees need.

use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::db::sqlite::Durability;
use crate::db::sqlite::patience;
use crate::db::sqlite::place::FileId;
use crate::store::Fingerprint;
use crate::support::clock::monotonic;
#[cfg(unix)]
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::{Error, ErrorKind, Result};

/// Older versions can corrupt a WAL if two connections write and checkpoint at once.
pub(crate) const SQLITE_VERSION_MIN: i32 = 3_051_003;
const STATEMENTS_CACHED: usize = 128;

pub(crate) fn check_version(version: i32) -> Result<()> {
    if version >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let [major, minor, patch] = [version / 1_000_000, version / 1000 % 1000, version % 1000];
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("SQLite {major}.{minor}.{patch} can corrupt a database under this load; 3.51.3 or newer is needed"),
    ))
}

/// How often opening is tried while the file is being replaced.
const REPLACED_MAX: u32 = 3;

/// Opens a connection that writes.
pub(crate) fn writer(path: &Path, durability: Durability) -> Result<Connection> {
    check_version(rusqlite::version_number())?;
    check_folder(path)?;
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if conn.is_readonly("main")? {
        return Err(unusable(path, "it is read-only"));
    }
    // Purged messages leave free pages, which can be given back only in a file that was created for it.
    if conn.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).map_err(|source| explain(path, source))? == 0
    {
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode = switch_to_log(&conn).map_err(|source| explain(path, source))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(unusable(path, "it cannot be switched to a write-ahead log"));
    }
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    // On macOS a plain fsync leaves the data in the disk's own cache; on other systems this setting changes nothing.
    conn.pragma_update(None, "fullfsync", durability == Durability::Full)?;
    conn.pragma_update(None, "checkpoint_fullfsync", durability == Durability::Full)?;
    // Otherwise the log would keep the size of the longest transaction forever.
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    Ok(conn)
}

/// Opens the file again if another one has replaced it in the meantime, as a restore does. Otherwise the connection
/// would write to the old file and to the log of the new one, because the log is found by its name.
pub(crate) fn the_same_file(path: &Path, open: impl Fn() -> Result<Connection>) -> Result<(Connection, FileId)> {
    for _ in 0..REPLACED_MAX {
        let before = FileId::of(path);
        let conn = open()?;
        if let (Ok(before), Ok(after)) = (before, FileId::of(path))
            && before == after
        {
            return Ok((conn, after));
        }
    }
    Err(unusable(path, "other files keep replacing it"))
}

/// Switches a file to the write-ahead log. If several connections switch a new file at once, SQLite lets one wait and
/// refuses the others, because each holds what the other needs. Those try again, for as long as they would have waited.
fn switch_to_log(conn: &Connection) -> rusqlite::Result<String> {
    let begun = monotonic();
    loop {
        let switched = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        let is_busy = |error: &rusqlite::Error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        if !switched.as_ref().is_err_and(is_busy) || patience::is_over(begun) {
            return switched;
        }
        std::thread::sleep(patience::BUSY_PAUSE);
    }
}

/// Opens a connection that only reads.
pub(crate) fn reader(path: &Path) -> Result<Connection> {
    check_version(rusqlite::version_number())?;
    check_folder(path)?;
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.pragma_update(None, "query_only", true)?;
    // The first read opens the log. If that fails, the error is reported here and not by a later statement.
    conn.query_row("PRAGMA schema_version", [], |_| Ok(())).map_err(|source| explain(path, source))?;
    Ok(conn)
}

/// Opens an empty file that a copy is written to. Nobody uses it before it is complete: each page, whatever its size,
/// is written straight to its place without a log or a journal, and the code that names the copy waits for the disk
/// once.
pub(crate) fn blank(path: &Path) -> Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    Ok(conn)
}

fn open(path: &Path, access: OpenFlags) -> Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|source| explain(path, source))?;
    conn.busy_handler(Some(patience::ask_again))?;
    conn.execute_batch(
        "PRAGMA cache_size = -8000; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
    )
    .map_err(|source| explain(path, source))?;
    // Otherwise every claim is compiled again, because the planner looks at its values: an eighth of the writer's time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(conn)
}

fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("cannot open {}: the folder {} does not exist; create it first", path.display(), folder.display()),
    ))
}

/// Creates the file for its owner only. SQLite would create it with the process's umask. The log and its index take the
/// file's mode.
pub(crate) fn create_private(path: &Path) -> Result<()> {
    check_folder(path)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            let kind = if is_final(&error) { ErrorKind::Unsupported } else { ErrorKind::Unavailable };
            Err(Error::new(kind, format!("cannot create {}: {error}", path.display())).caused_by(error))
        }
    }
}

/// Whether an error of the file system stays until the path, or the file, is changed.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::PermissionDenied
            | Kind::ReadOnlyFilesystem
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::InvalidInput
            | Kind::InvalidFilename
    )
}

fn explain(path: &Path, source: rusqlite::Error) -> Error {
    let why = match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => "it is not a SQLite database",
        Some(rusqlite::ErrorCode::ReadOnly) => "it is read-only",
        Some(rusqlite::ErrorCode::CannotOpen) if may_be_opened(path) => {
            let why = "it could not be opened just now; the process may have too many files open";
            return Error::new(ErrorKind::Unavailable, format!("cannot use {}: {why}", path.display()))
                .caused_by(source);
        }
        Some(rusqlite::ErrorCode::CannotOpen) if path.is_dir() => "it is a folder: name a file in it",
        Some(rusqlite::ErrorCode::CannotOpen) => "it does not exist or may not be read and written",
        // Busy, a full disk or a failing one: these errors may pass.
        _ => return Error::from(source),
    };
    unusable(path, why).caused_by(source)
}

/// Whether nothing forbids opening the path. The file is not opened to find out: closing it again would release the
/// locks that other connections of this process hold on it.
fn may_be_opened(path: &Path) -> bool {
    let is_file = |path: &Path| std::fs::metadata(path).is_ok_and(|file| file.is_file());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let log_is_free = |log: PathBuf| if log.exists() { is_file(&log) && may_write(&log) } else { may_write(folder) };
    is_file(path) && may_write(path) && ["-wal", "-shm"].iter().all(|end| log_is_free(beside(path, end)))
}

#[cfg(unix)]
fn may_write(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn may_write(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| !file.permissions().readonly())
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("cannot use {}: {why}", path.display()))
}

/// A file that was written within this time may be written again without a visible change.
#[cfg(unix)]
const FRESH: Duration = Duration::from_secs(1);

/// What the database and its log look like from outside. Opening and closing do not change it; committing does. `None`
/// if one of them was written so recently that the file system's clock could hide another write.
#[cfg(unix)]
pub(crate) fn fingerprint(path: &Path) -> Option<Fingerprint> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).ok()?;
    // An empty log may exist or not.
    let log = std::fs::metadata(log_of(path)).ok().filter(|log| log.len() > 0);
    let fresh = Clock::Database.wall().minus(FRESH);
    let written = [Some(&file), log.as_ref()].into_iter().flatten().filter_map(|file| file.modified().ok());
    if written.map(Timestamp::from).any(|at| at >= fresh) {
        return None;
    }
    let moment = |file: &std::fs::Metadata| (file.mtime().cast_unsigned() << 30) ^ file.mtime_nsec().cast_unsigned();
    let (log_len, log_moment) = log.as_ref().map_or((0, 0), |log| (log.len(), moment(log)));
    Some(Fingerprint([file.ino(), file.len(), moment(&file), log_len, log_moment]))
}

/// On other systems the time of an open file may not change.
#[cfg(not(unix))]
pub(crate) fn fingerprint(_: &Path) -> Option<Fingerprint> {
    None
}

/// The write-ahead log of a database.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The path with `end` appended.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// A key that is the same for the same file, whichever path names it.
pub(crate) fn file_key(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_that_can_corrupt_its_log_is_refused() {
        assert!(check_version(3_051_003).is_ok());
        assert!(check_version(3_054_001).is_ok());
        let refused = check_version(3_051_002).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("3.51.2"), "{refused}");
    }

    #[test]
    fn many_may_open_a_new_file_at_once() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("new.db");
            let start = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                let open = || {
                    start.wait();
                    create_private(&path)?;
                    writer(&path, Durability::Full).map(drop)
                };
                let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
                opened.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
            });
        }
    }

    /// `postroom restore` does this while a process waits for the file.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_while_it_is_opened_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["shop.db", "backup.db"].map(|name| dir.path().join(name));
        for (path, id) in [(&path, 1), (&other, 2)] {
            create_private(path).unwrap();
            let conn = writer(path, Durability::Full).unwrap();
            conn.execute_batch(&format!("CREATE TABLE t AS SELECT {id} AS id")).unwrap();
        }
        let opened = std::cell::Cell::new(0);
        let conn = the_same_file(&path, || {
            let conn = open(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            if opened.replace(opened.get() + 1) == 0 {
                std::fs::rename(&other, &path).unwrap();
            }
            Ok(conn)
        });
        let id: i64 = conn.unwrap().0.query_row("SELECT id FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((id, opened.get()), (2, 2));
    }
}
