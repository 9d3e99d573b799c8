//! Judges what the settings of SQL Server mean for messages.

mod questions;

pub(crate) use questions::QUESTIONS;

use crate::db::mssql::error::{is_compatible, is_new_enough};

use crate::db::doctor::{Facts, Finding, Judge, Level, Report, judged, schema, server, times};

/// A transaction that stays open for longer than this keeps its locks, and the log, all that time.
const TRANSACTION_LONG: i64 = 600;
/// How many procedures the library itself calls.
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
    let means = "it does not support JSON, which leases travel in, and opening the store is refused";
    let (fine, wrong) =
        (Finding::ok("version", version, "new enough"), (Level::Danger, means, "SQL Server 2016 (13.0) is the oldest"));
    Some(fine.only_if(is_new_enough(version, facts.text("edition").unwrap_or_default(), product), wrong))
}

/// Without tables, no procedure is missing.
fn procedures(facts: &Facts) -> Option<Finding> {
    facts.number("schema.found")?;
    let found = facts.number("procedures")?;
    let value = format!("{found} of {PROCEDURES}");
    let means = "nothing can be claimed: they are missing, or this user may not execute them";
    let advice = "run the SQL that `postroom migrate --print` prints, and GRANT EXECUTE ON SCHEMA::infra";
    let fine = Finding::ok("procedures", value, "this user sees all procedures that the library calls");
    Some(fine.only_if(found == PROCEDURES, (Level::Danger, means, advice)))
}

fn updateability(facts: &Facts) -> Option<Finding> {
    let value = facts.text("updateability")?;
    let means = "the database takes no writes, as a secondary replica does, and opening a store on it is refused";
    let wrong = (Level::Danger, means, "connect to the primary");
    Some(Finding::ok("updateability", value, "the database takes writes").only_if(value != "READ_ONLY", wrong))
}

fn compatibility(facts: &Facts) -> Option<Finding> {
    let level = facts.number("compatibility_level")?;
    let value = level.to_string();
    let means = "the database behaves like an old server without JSON, and opening the store is refused";
    let advice = "ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 130, or higher";
    let (fine, wrong) = (Finding::ok("compatibility_level", value, "it supports JSON"), (Level::Danger, means, advice));
    Some(fine.only_if(is_compatible(Some(level), facts.text("product").unwrap_or_default()), wrong))
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
    let means = "a page that was damaged on disk is not noticed";
    let wrong = (Level::Warning, means, "ALTER DATABASE CURRENT SET PAGE_VERIFY CHECKSUM");
    Some(Finding::ok("page_verify", value, "damaged pages are noticed").only_if(value == "CHECKSUM", wrong))
}

fn recovery_model(facts: &Facts) -> Option<Finding> {
    let value = facts.text("recovery_model")?;
    let means = "the database can be restored only to its last backup: later data is lost with the disk";
    let fine = Finding::ok("recovery_model", value, "with backups of the log, it can be restored to any moment");
    Some(fine.only_if(value != "SIMPLE", (Level::Notice, means, "FULL, and backups of the log")))
}

fn snapshots(facts: &Facts) -> Option<Finding> {
    let is_on = facts.is_on("rcsi")?;
    let name = "read_committed_snapshot";
    Some(if is_on {
        Finding::ok(name, "on", "readers do not wait for writers")
    } else {
        let means = "`postroom failed`, `show` and your own reads wait for writers; claims and polls do not";
        let advice = "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON";
        Finding::new(Level::Notice, name, "off", means, advice)
    })
}

fn auto_close(facts: &Facts) -> Option<Finding> {
    facts.is_on("auto_close").filter(|is_on| *is_on).map(|_| {
        let means = "the database closes with its last connection, and the next one waits until it is open again";
        Finding::new(Level::Warning, "auto_close", "on", means, "ALTER DATABASE CURRENT SET AUTO_CLOSE OFF")
    })
}

fn transactions(facts: &Facts) -> Option<Finding> {
    let seconds = facts.number("oldest_transaction_seconds")?;
    let (name, value) = ("oldest transaction", format!("{seconds} s"));
    let means = "it holds its locks and keeps the log from being truncated: claims skip its rows";
    let wrong = (Level::Warning, means, "end it: sys.dm_tran_session_transactions names its session");
    Some(Finding::ok(name, value, "no transaction is open for long").only_if(seconds <= TRANSACTION_LONG, wrong))
}

#[cfg(test)]
mod tests;
