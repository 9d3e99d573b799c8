//! `postroom restore`: replaces the database with a backup while no program has it open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use postroom::clock::{Clock, Timestamp};
use postroom::questions::Questions;
use postroom::queue::Queue;
use postroom::sqlite::SqliteOptions;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::Global;
use crate::database::{Database, absolute};
use crate::output;
use crate::problem::Problem;
use crate::up::backups::sync_folder;

/// Verify a backup and replace the database file with it; the old file is kept next to it
///
/// Stop every program that uses the database first. The backup lacks the messages that arrived after it was made, so
/// run `postroom redrive` on every service that sends messages to this one.
#[derive(Args)]
pub(crate) struct Restore {
    /// The backup: a file from `postroom backup`
    from: PathBuf,

    /// Change nothing; verify the backup, and check that no program uses the database
    #[arg(long)]
    dry_run: bool,
}

/// The files that belong to a database: its log and the log's index.
const LOGS: [&str; 2] = ["-wal", "-shm"];

/// A margin for clock differences.
const MARGIN: Duration = Duration::from_secs(5 * 60);

impl Restore {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let to = absolute(&file(global.database()?)?);
        // Follow a symbolic link.
        let to = std::fs::canonicalize(&to).unwrap_or(to);
        let from = absolute(&self.from);
        check_paths(&from, &to)?;
        let copy = Copy::of(&from, &to)?;
        let newest = check_copy(&copy.0, &from).await?;
        let was_there = to.exists();
        if was_there && !self.dry_run {
            fold_log(&to);
        }
        // Held until the end: a program that opens the file meanwhile finds it busy.
        let _alone = if was_there { Some(alone(&to)?) } else { None };
        // SQLite would apply a leftover log to the restored file.
        let has_log = LOGS.iter().any(|part| beside(&to, part).exists());
        let kept = (was_there || has_log).then(|| kept_name(&to));
        if !self.dry_run {
            copy.take_after(&to)?;
            let kept_old = kept.as_deref().map_or(Ok(()), |kept| keep(&to, kept));
            kept_old.and_then(|()| copy.put(&to)).inspect_err(|_| {
                kept.iter().for_each(|kept| put_back(&to, kept));
            })?;
            sync_folder(&to)?;
        }
        self.tell(&to, kept.as_deref().filter(|_| was_there), newest, global.json)
    }

    fn tell(&self, to: &Path, kept: Option<&Path>, newest: Option<Timestamp>, json: bool) -> Result<()> {
        let kept = kept.filter(|_| !self.dry_run);
        if json {
            return output::json(&serde_json::json!({
                "path": to, "kept": kept, "newest": newest.map(|at| at.to_string()), "dry_run": self.dry_run,
            }));
        }
        if self.dry_run {
            return output::line(format!("{}: the backup is intact and can replace it", to.display()));
        }
        output::line(format!("{}: restored from {}", to.display(), self.from.display()))?;
        if let Some(kept) = kept {
            output::line(format!("the old file is kept as {}", kept.display()))?;
        }
        // The senders' clocks may differ. Duplicates are recognised.
        let since = newest.map_or_else(|| "TIME".to_owned(), |at| at.minus(MARGIN).to_string());
        eprintln!(
            "the backup lacks messages that arrived after it was made; on every service that sends to this one, run"
        );
        eprintln!("  postroom redrive --destination THIS-SERVICE --since {since}");
        Ok(())
    }
}

fn file(database: Database) -> Result<PathBuf> {
    let tool = match &database {
        Database::Sqlite(path) => return Ok(path.clone()),
        Database::Postgres(_) => "`pg_restore`, or recovery from archived WAL; then `postroom redrive` on the senders",
        Database::Mssql(_) => "`RESTORE DATABASE` and `RESTORE LOG`; then `postroom redrive` on the senders",
        Database::MySql(_) => "`mariadb < dump.sql`, or the binary log; then `postroom redrive` on the senders",
    };
    let what = format!("this command restores SQLite files only, and this database is {}", database.kind());
    Err(Problem::new(what, tool).into())
}

fn check_paths(from: &Path, to: &Path) -> Result<()> {
    if !from.is_file() {
        bail!(Problem::new(
            format!("there is no backup at {}", from.display()),
            "the path of a file from `postroom backup`"
        ));
    }
    let same = |path: &Path| std::fs::canonicalize(path).ok();
    if same(from).is_some() && same(from) == same(to) {
        bail!(Problem::new(
            "the backup is the database itself",
            "--db PATH for the database, and the path of the backup"
        ));
    }
    if std::fs::metadata(beside(from, "-wal")).is_ok_and(|log| log.len() > 0) {
        let what = format!("{} has a log file (-wal), so it is in use or not a backup", from.display());
        bail!(Problem::new(what, "`postroom backup` on it first, which makes a single complete file"));
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        bail!(Problem::new(
            format!("the folder {} does not exist", folder.display()),
            "create it first, or use --db PATH"
        ));
    }
    Ok(())
}

/// A copy of the backup next to the database. Deleted on drop unless it replaced the database.
struct Copy(PathBuf);

impl Copy {
    fn of(from: &Path, to: &Path) -> Result<Self> {
        let path = beside(to, &format!(".restoring-{}", std::process::id()));
        let cannot = || format!("cannot copy {} to {}", from.display(), path.display());
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).with_context(cannot)?;
        // From here on, drop deletes it.
        let copy = Self(path.clone());
        let mut source = std::fs::File::open(from).with_context(cannot)?;
        std::io::copy(&mut source, &mut file).with_context(cannot)?;
        file.sync_all().with_context(cannot)?;
        Ok(copy)
    }

    /// Copies the owner and mode of the old file.
    fn take_after(&self, old: &Path) -> Result<()> {
        #[cfg(unix)]
        if let Ok(file) = std::fs::metadata(old) {
            use std::os::unix::fs::MetadataExt;
            let cannot = || format!("cannot give {} the owner and the mode of {}", self.0.display(), old.display());
            std::fs::set_permissions(&self.0, file.permissions()).with_context(cannot)?;
            let copy = std::fs::metadata(&self.0).with_context(cannot)?;
            if (copy.uid(), copy.gid()) != (file.uid(), file.gid()) {
                std::os::unix::fs::chown(&self.0, Some(file.uid()), Some(file.gid())).with_context(cannot)?;
            }
        }
        Ok(())
    }

    fn put(&self, to: &Path) -> Result<()> {
        std::fs::rename(&self.0, to).with_context(|| format!("cannot put the backup at {}", to.display()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // Opening the copy may have left an empty log.
        for part in ["", LOGS[0], LOGS[1]] {
            let _ = std::fs::remove_file(beside(&self.0, part));
        }
    }
}

/// Checks that the copy is intact and a Postroom database. Returns the newest time in it.
async fn check_copy(copy: &Path, from: &Path) -> Result<Option<Timestamp>> {
    let advice = "another backup; this one is damaged, or not from Postroom";
    if let Err(error) = postroom::sqlite::restore_check(copy) {
        let why = error.to_string().replace(&copy.display().to_string(), "it");
        bail!(Problem::new(format!("{} cannot be restored: {why}", from.display()), advice));
    }
    let store = SqliteOptions::new(copy).create_file(false).watch(false).open().await;
    let store =
        store.map_err(|error| Problem::new(format!("{} cannot be restored: {error}", from.display()), advice))?;
    let (outbox, inbox) = (store.newest(Queue::Outbox).await?, store.newest(Queue::Inbox).await?);
    store.close().await;
    Ok(outbox.at().max(inbox.at()))
}

/// `shop.db-wal` for `shop.db`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn kept_name(to: &Path) -> PathBuf {
    let time = Clock::Database.now().to_string();
    let time: String = time.chars().take_while(|sign| *sign != '.').filter(|sign| !"-:".contains(*sign)).collect();
    (0..)
        .map(|number: u32| if number == 0 { String::new() } else { format!("-{number}") })
        .map(|number| beside(to, &format!(".before-{time}Z{number}")))
        .find(|name| !name.exists())
        .unwrap_or_else(|| beside(to, ".before"))
}

/// Keeps the database and its log files under another name. The log files move, because SQLite must never apply them to
/// the backup. The database itself also stays in place until the backup replaces it in one step.
fn keep(path: &Path, kept: &Path) -> Result<()> {
    let cannot = || format!("cannot keep {} as {}", path.display(), kept.display());
    if path.exists() {
        std::fs::hard_link(path, kept).or_else(|_| std::fs::copy(path, kept).map(drop)).with_context(cannot)?;
    }
    for part in LOGS {
        let (from, to) = (beside(path, part), beside(kept, part));
        if from.exists() {
            std::fs::rename(&from, &to).with_context(cannot)?;
        }
    }
    sync_folder(path)
}

/// Undoes `keep`.
fn put_back(path: &Path, kept: &Path) {
    for part in LOGS {
        let _ = std::fs::rename(beside(kept, part), beside(path, part));
    }
    let _ = std::fs::remove_file(kept);
}

/// Merges the log into the database, if it is readable and no other program has it open. If this program is then killed
/// half-way, the old file is complete without the log.
fn fold_log(path: &Path) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let folded = Connection::open_with_flags(path, flags).and_then(|conn| {
        // Keep the log of a file that cannot be read: closing would remove it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
    });
    tracing::debug!(?folded, "tried to checkpoint the log into the old file");
}

/// Locks the whole file. A program that has a SQLite file with a log open always holds a lock on a part of it, even if
/// the file is damaged.
#[cfg(unix)]
fn alone(path: &Path) -> Result<std::fs::File> {
    let file = std::fs::File::options().read(true).write(true).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let lock = rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    if lock.is_err() {
        return Err(in_use(path));
    }
    Ok(file)
}

/// On other systems an open file cannot be renamed, which is enough.
#[cfg(not(unix))]
fn alone(path: &Path) -> Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open(path).map_err(|_| in_use(path))
}

fn in_use(path: &Path) -> anyhow::Error {
    let what = format!("another program has {} open", path.display());
    Problem::new(what, "stop every program that uses it (`fuser` lists them), then run this again").into()
}
