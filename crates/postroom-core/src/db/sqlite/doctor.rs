//! Judges what a SQLite file and its location mean for messages.

mod files;
mod questions;

pub(crate) use files::look;
pub(crate) use questions::QUESTIONS;

use std::path::Path;

use crate::db::sqlite::SQLITE_VERSION_MIN;

use crate::db::doctor::{Facts, Finding, Judge, Level, Report, judged, schema, times};

const MIB: i64 = 1 << 20;
const LOG_LARGE: i64 = 64 * MIB;
const ROOM_SMALL: i64 = 1024 * MIB;
const ROOM_TINY: i64 = 100 * MIB;
/// The permissions of everybody but the owner.
const OTHERS: i64 = 0o077;

pub(crate) fn report(path: &Path, facts: &Facts) -> Report {
    let version = facts.text("version").unwrap_or("of unknown version");
    Report::new(format!("SQLite {version}, file {}", path.display()), judged(facts, JUDGES))
}

const JUDGES: &[Judge] = &[
    version,
    schema::is_there,
    schema::places,
    times::jump,
    times::ahead,
    integrity,
    journal_mode,
    synchronous,
    file_system,
    permissions,
    log,
    room,
];

fn version(facts: &Facts) -> Option<Finding> {
    let (version, number) = (facts.text("version")?, facts.number("version_number")?);
    let means = "it can corrupt a write-ahead log under this load, and opening a store is refused";
    let wrong = (Level::Danger, means, "build with SQLite 3.51.3 or newer");
    Some(Finding::ok("SQLite library", version, "new enough").only_if(number >= i64::from(SQLITE_VERSION_MIN), wrong))
}

fn integrity(facts: &Facts) -> Option<Finding> {
    let verdict = facts.text("quick_check")?;
    let advice = "stop everything that uses it, and go back to a copy made with `postroom backup`";
    let wrong = (Level::Danger, "the file is damaged", advice);
    Some(Finding::ok("quick_check", verdict, "the file is intact").only_if(verdict == "ok", wrong))
}

fn journal_mode(facts: &Facts) -> Option<Finding> {
    let mode = facts.text("journal_mode")?;
    let means = "a store switches the file to a write-ahead log when it opens it, for every program that uses it";
    let (fine, wrong) = (
        Finding::ok("journal_mode", mode, "readers and the writer do not wait for each other"),
        (Level::Notice, means, "nothing; PRAGMA journal_mode = WAL does it now"),
    );
    Some(fine.only_if(mode.eq_ignore_ascii_case("wal"), wrong))
}

/// Every connection has its own setting; this judges the one of the store's connections.
fn synchronous(facts: &Facts) -> Option<Finding> {
    let value = facts.text("synchronous")?;
    let means = "a power cut can lose work that was acknowledged in the last moments; a crash of the program cannot";
    let fine = Finding::ok("synchronous", value, "the store's commits reach the disk; other connections set their own");
    Some(fine.only_if(value == "FULL", (Level::Danger, means, "Durability::Full, which is the default")))
}

fn file_system(facts: &Facts) -> Option<Finding> {
    let (name, kind) = (facts.text("file_system")?, facts.text("file_system.kind")?);
    let (level, means, advice) = match kind {
        "network" => (
            Level::Danger,
            "locks and the index of the log do not work over a network: two machines can damage the file",
            "a local disk, or a database server",
        ),
        "memory" => {
            (Level::Danger, "the file is in memory only: it is gone when the machine restarts", "a folder on a disk")
        }
        "overlay" => (
            Level::Warning,
            "the file is in a layer of a container, and is deleted with the container",
            "a volume that outlives the container",
        ),
        "fuse" => (
            Level::Warning,
            "behind FUSE there may be a network file system, and fsync may be ignored",
            "a local disk, unless you know what is behind it",
        ),
        _ => return Some(Finding::ok("file system", name, "a local one")),
    };
    Some(Finding::new(level, "file system", name, means, advice))
}

fn permissions(facts: &Facts) -> Option<Finding> {
    let mode = facts.number("mode")?;
    let value = format!("{mode:o}");
    let means = "others on this machine can read the messages or write them";
    let wrong = (Level::Notice, means, "chmod 600, also for its -wal and -shm");
    Some(Finding::ok("file mode", value, "only its owner can read it").only_if(mode & OTHERS == 0, wrong))
}

fn log(facts: &Facts) -> Option<Finding> {
    let bytes = facts.number("log_bytes")?;
    let value = format!("{} MiB", bytes / MIB);
    let means = "a reader that stays open for long blocks the checkpoint of the log: everything gets slower";
    let wrong = (Level::Warning, means, "end the long read transaction");
    Some(Finding::ok("write-ahead log", value, "checkpointed as it should be").only_if(bytes <= LOG_LARGE, wrong))
}

fn room(facts: &Facts) -> Option<Finding> {
    let bytes = facts.number("free_bytes")?;
    let value = format!("{} MiB free", bytes / MIB);
    let means = "when the disk is full nothing can be enqueued, claimed or acknowledged";
    let advice = "free up space, or shorten the retention (`postroom purge`)";
    Some(match bytes {
        ..ROOM_TINY => Finding::new(Level::Danger, "disk", value, means, advice),
        ROOM_TINY..ROOM_SMALL => Finding::new(Level::Warning, "disk", value, means, advice),
        _ => Finding::ok("disk", value, "enough"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: [(&str, &str); 11] = [
        ("version", "3.51.3"),
        ("version_number", "3051003"),
        ("quick_check", "ok"),
        ("journal_mode", "wal"),
        ("synchronous", "FULL"),
        ("file_system", "ext"),
        ("file_system.kind", "disk"),
        ("mode", "384"),
        ("log_bytes", "4096"),
        ("free_bytes", "10737418240"),
        ("schema.wanted", "1"),
    ];

    fn with(changes: &[(&str, &str)]) -> Report {
        let mut facts = Facts::from(FINE);
        facts.add("schema.found", 1);
        changes.iter().for_each(|(name, value)| facts.add(name, value));
        report(Path::new("shop.db"), &facts)
    }

    #[test]
    fn a_file_as_we_create_it_is_fine() {
        let report = with(&[]);
        assert_eq!(report.worst(), Level::Ok, "{:?}", report.findings);
        assert_eq!(report.database, "SQLite 3.51.3, file shop.db");
    }

    #[test]
    fn every_trait_is_judged_by_what_it_can_lose() {
        for (changes, setting, level) in [
            (&[("version_number", "3051002")][..], "SQLite library", Level::Danger),
            (&[("quick_check", "row 7 missing from index")], "quick_check", Level::Danger),
            (&[("journal_mode", "delete")], "journal_mode", Level::Notice),
            (&[("synchronous", "NORMAL")], "synchronous", Level::Danger),
            (&[("file_system", "NFS"), ("file_system.kind", "network")], "file system", Level::Danger),
            (&[("file_system.kind", "memory")], "file system", Level::Danger),
            (&[("file_system.kind", "overlay")], "file system", Level::Warning),
            (&[("file_system.kind", "fuse")], "file system", Level::Warning),
            (&[("mode", "420")], "file mode", Level::Notice),
            (&[("log_bytes", "67108865")], "write-ahead log", Level::Warning),
            (&[("free_bytes", "1073741823")], "disk", Level::Warning),
            (&[("free_bytes", "104857599")], "disk", Level::Danger),
        ] {
            let report = with(changes);
            let found: Vec<_> = report.at_least(Level::Notice).collect();
            assert_eq!(report.worst(), level, "{changes:?}: {found:?}");
            assert_eq!(found.iter().map(|finding| finding.setting.as_str()).collect::<Vec<_>>(), [setting]);
            assert!(found[0].advice.as_ref().is_some_and(|advice| !advice.is_empty()), "{found:?}");
        }
    }
}
