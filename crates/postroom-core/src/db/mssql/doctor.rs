//! SQL Server: what its settings mean for messages.

mod questions;

pub(crate) use questions::QUESTIONS;

use crate::db::mssql::error::{is_compatible, is_new_enough};

use crate::db::doctor::{Facts, Finding, Judge, Level, Report, judged, schema, server, times};

/// A transaction that is open for longer holds its locks, and the log, for as long.
const TRANSACTION_LONG: i64 = 600;
/// What the library itself calls.
const PROCEDURES: i64 = 2;

pub(crate) fn report(facts: &Facts) -> Report {
    let product = facts.text("product").and_then(|product| product.lines().next()).unwrap_or("SQL Server");
    let database = facts.text("database").unwrap_or("of unknown name");
    Report::new(format!("{}, database {database}", product.trim()), judged(facts, JUDGES))
}

const JUDGES: &[Judge] = &[
    version,
    schema::is_there,
    procedures,
    server::clock,
    times::ahead,
    updateability,
    compatibility,
    delayed_durability,
    page_verify,
    recovery_model,
    snapshots,
    auto_close,
    transactions,
    server::connections,
    |facts| server::encryption(facts, "encrypt=true in the URL"),
];

fn version(facts: &Facts) -> Option<Finding> {
    let (version, product) = (facts.text("version")?, facts.text("product").unwrap_or_default());
    Some(if is_new_enough(version, facts.text("edition").unwrap_or_default(), product) {
        Finding::ok("version", version, "new enough")
    } else {
        let means = "it knows no JSON, which leases travel in, and opening the store is refused";
        Finding::new(Level::Danger, "version", version, means, "SQL Server 2016 (13.0) is the oldest")
    })
}

/// Without its tables there is nothing to miss.
fn procedures(facts: &Facts) -> Option<Finding> {
    facts.number("schema.found")?;
    let found = facts.number("procedures")?;
    let value = format!("{found} of {PROCEDURES}");
    Some(if found == PROCEDURES {
        Finding::ok("procedures", value, "this user sees all that the library calls")
    } else {
        let means = "nothing can be claimed: they are missing, or this user may not execute them";
        let advice = "run what `postroom migrate --print` prints, and GRANT EXECUTE ON SCHEMA::infra";
        Finding::new(Level::Danger, "procedures", value, means, advice)
    })
}

fn updateability(facts: &Facts) -> Option<Finding> {
    let value = facts.text("updateability")?;
    Some(if value == "READ_ONLY" {
        let means = "the database takes no writes, as a secondary replica does, and opening a store on it is refused";
        Finding::new(Level::Danger, "updateability", value, means, "connect to the primary")
    } else {
        Finding::ok("updateability", value, "the database takes writes")
    })
}

fn compatibility(facts: &Facts) -> Option<Finding> {
    let level = facts.number("compatibility_level")?;
    let value = level.to_string();
    Some(if is_compatible(Some(level), facts.text("product").unwrap_or_default()) {
        Finding::ok("compatibility_level", value, "JSON is known")
    } else {
        let means = "the database behaves like an old server that knows no JSON, and opening the store is refused";
        let advice = "ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 130, or higher";
        Finding::new(Level::Danger, "compatibility_level", value, means, advice)
    })
}

fn delayed_durability(facts: &Facts) -> Option<Finding> {
    let name = "delayed_durability";
    let value = facts.text(name)?;
    let advice = "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED";
    Some(match value {
        "FORCED" => {
            let means = "no commit waits for the disk: a crash loses messages that were acknowledged";
            Finding::new(Level::Danger, name, value, means, advice)
        }
        "ALLOWED" => {
            let means = "a transaction of yours may commit without waiting for the disk; ours wait";
            Finding::new(Level::Notice, name, value, means, advice)
        }
        _ => Finding::ok(name, value, "commits reach the disk"),
    })
}

fn page_verify(facts: &Facts) -> Option<Finding> {
    let value = facts.text("page_verify")?;
    Some(if value == "CHECKSUM" {
        Finding::ok("page_verify", value, "damaged pages are noticed")
    } else {
        let means = "a page that was damaged on disk is not noticed";
        Finding::new(Level::Warning, "page_verify", value, means, "ALTER DATABASE CURRENT SET PAGE_VERIFY CHECKSUM")
    })
}

fn recovery_model(facts: &Facts) -> Option<Finding> {
    let value = facts.text("recovery_model")?;
    Some(if value == "SIMPLE" {
        let means = "the database can be restored to its last backup only: what came since is lost with the disk";
        Finding::new(Level::Notice, "recovery_model", value, means, "FULL, and backups of the log")
    } else {
        Finding::ok("recovery_model", value, "with backups of the log, it can be restored to any moment")
    })
}

fn snapshots(facts: &Facts) -> Option<Finding> {
    let is_on = facts.is_on("rcsi")?;
    let name = "read_committed_snapshot";
    Some(if is_on {
        Finding::ok(name, "on", "who reads does not wait for who writes")
    } else {
        let means = "`postroom failed`, `show` and your own reads wait for whoever is writing; claims and looks do not";
        let advice = "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON";
        Finding::new(Level::Notice, name, "off", means, advice)
    })
}

fn auto_close(facts: &Facts) -> Option<Finding> {
    facts.is_on("auto_close").filter(|is_on| *is_on).map(|_| {
        let means = "the database is closed when its last connection is, and each next one waits until it is open";
        Finding::new(Level::Warning, "auto_close", "on", means, "ALTER DATABASE CURRENT SET AUTO_CLOSE OFF")
    })
}

fn transactions(facts: &Facts) -> Option<Finding> {
    let seconds = facts.number("oldest_transaction_seconds")?;
    let (name, value) = ("oldest transaction", format!("{seconds} s"));
    Some(if seconds > TRANSACTION_LONG {
        let means = "it holds its locks and keeps the log from being cut: claims pass over its rows";
        Finding::new(Level::Warning, name, value, means, "end it: sys.dm_tran_session_transactions names its session")
    } else {
        Finding::ok(name, value, "no transaction is open for long")
    })
}

#[cfg(test)]
mod tests;
