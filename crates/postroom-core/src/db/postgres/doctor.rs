//! Judges what the settings of PostgreSQL mean for messages.

mod questions;

pub(crate) use questions::QUESTIONS;

use crate::db::postgres::driver_sqlx_09::VERSION_MIN;

use crate::db::doctor::{Facts, Finding, Judge, Level, Report, judged, schema, server, times};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// A snapshot is old when more transactions than this have passed since it was taken.
const SNAPSHOT_OLD: i64 = 1_000_000;
const DEAD_ROWS_MANY: i64 = 100_000;

pub(crate) fn report(database: &str, facts: &Facts) -> Report {
    let version = facts.text("server_version").unwrap_or("of unknown version");
    let mut findings = judged(facts, JUDGES);
    findings.extend(overrides(facts));
    findings.extend(["outbox", "inbox"].iter().flat_map(|queue| table(facts, queue)));
    Report::new(format!("PostgreSQL {version}, database {database}"), findings)
}

const JUDGES: &[Judge] = &[
    version,
    standby,
    schema::is_there,
    schema::places,
    server::clock,
    times::ahead,
    fsync,
    full_page_writes,
    synchronous_commit,
    replicas,
    autovacuum,
    old_transactions,
    old_snapshots,
    isolation,
    pooler,
    server::connections,
    |facts| server::encryption(facts, "sslmode=verify-full in the URL"),
];

fn version(facts: &Facts) -> Option<Finding> {
    let (version, number) = (facts.text("server_version")?, facts.number("server_version_num")?);
    let means = "the store's statements need version 13 or newer, and opening it is refused";
    let wrong = (Level::Danger, means, "upgrade the server");
    Some(Finding::ok("server_version", version, "new enough").only_if(number >= VERSION_MIN, wrong))
}

fn standby(facts: &Facts) -> Option<Finding> {
    let is_standby = facts.is_on("standby")?;
    let value = if is_standby { "yes" } else { "no" };
    let means = "a standby cannot be written to, and opening a store on it is refused";
    let advice = "connect to the primary; with several hosts, target_session_attrs has no effect here";
    Some(Finding::ok("standby", value, "this is the primary").only_if(!is_standby, (Level::Danger, means, advice)))
}

fn fsync(facts: &Facts) -> Option<Finding> {
    let value = facts.text("fsync")?;
    let means = "a power cut or a crash of the machine can lose commits and damage the whole database";
    let wrong = (Level::Danger, means, "fsync = on; off is for data that nobody needs");
    Some(Finding::ok("fsync", value, "commits reach the disk").only_if(facts.is_on("fsync")?, wrong))
}

fn full_page_writes(facts: &Facts) -> Option<Finding> {
    let value = facts.text("full_page_writes")?;
    let means = "a page that was half written in a power cut stays damaged";
    let advice = "full_page_writes = on, unless the file system never writes half a page (ZFS)";
    let fine = Finding::ok("full_page_writes", value, "half-written pages can be repaired");
    Some(fine.only_if(facts.is_on("full_page_writes")?, (Level::Danger, means, advice)))
}

/// Our own transactions turn it on where it is off; the user's transactions do not.
fn synchronous_commit(facts: &Facts) -> Option<Finding> {
    let name = "synchronous_commit";
    let value = facts.text(name)?;
    let has_standbys = facts.text("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    Some(match value {
        "off" => {
            let means = "a crash of the server can lose your own last transactions, with the messages in them; claims, \
                         arrivals and handlers turn it on for themselves";
            Finding::new(Level::Warning, name, value, means, "on, for every role whose commits must not be lost")
        }
        "local" | "remote_write" if has_standbys => {
            let means = "a commit does not wait until a standby has it on disk: failing over can lose it";
            Finding::new(Level::Notice, name, value, means, "on or remote_apply, if a failover must lose nothing")
        }
        _ => Finding::ok(name, value, "commits wait for the disk"),
    })
}

/// The same setting, where it is set for a role or for the database.
fn overrides(facts: &Facts) -> Vec<Finding> {
    let off = facts.under("override.").filter(|(_, value)| *value == "off");
    let finding = |(role, value): (&str, &str)| {
        let setting = format!("synchronous_commit of {role}");
        let means = "a crash of the server can lose the role's last transactions, with the messages in them";
        let advice = format!("ALTER ROLE {role} RESET synchronous_commit (or ALTER DATABASE)");
        Finding::new(Level::Warning, &setting, value, means, advice)
    };
    off.map(finding).collect()
}

fn replicas(facts: &Facts) -> Option<Finding> {
    let (names, replicas) = (facts.text("synchronous_standby_names")?, facts.number("replicas").unwrap_or(0));
    let name = "synchronous_standby_names";
    Some(match (names, replicas) {
        ("", 0) => Finding::ok(name, "none", "no replica is connected: data that this server loses is lost"),
        ("", _) => {
            let means = format!("{replicas} connected, none synchronous: failing over loses the last commits");
            let advice = "name a synchronous standby, if a failover must lose nothing";
            Finding::new(Level::Notice, name, "none", means, advice)
        }
        (_, 0) => {
            let means = "no standby is connected: every commit waits until one is";
            Finding::new(Level::Warning, name, names, means, "bring a standby back, or remove its name")
        }
        _ => Finding::ok(name, names, format!("{replicas} connected")),
    })
}

fn autovacuum(facts: &Facts) -> Option<Finding> {
    let value = facts.text("autovacuum")?;
    let means = "every claim skips over the dead rows of earlier claims: the queue gets slower and slower";
    let fine = Finding::ok("autovacuum", value, "dead rows are removed");
    Some(fine.only_if(facts.is_on("autovacuum")?, (Level::Warning, means, "autovacuum = on")))
}

fn old_transactions(facts: &Facts) -> Option<Finding> {
    let name = "oldest transaction";
    let open = [facts.number("oldest_transaction_seconds"), facts.number("oldest_prepared_seconds")];
    let Some(seconds) = open.into_iter().flatten().max() else {
        return facts.is_on("sees_others").map(|sees| match sees {
            true => Finding::ok(name, "none", "no other session has a transaction open"),
            false => {
                let means = "this role does not see how long others have had transactions open";
                Finding::new(Level::Notice, name, "not visible", means, "GRANT pg_read_all_stats, to check it")
            }
        });
    };
    let value = format!("{seconds} s");
    let means = "while it is open, vacuum cannot remove rows that died since: claims get slower";
    let advice = "end it (pg_stat_activity, pg_prepared_xacts), and set idle_in_transaction_session_timeout";
    Some(match seconds {
        HOUR.. => Finding::new(Level::Warning, name, value, means, advice),
        MINUTE.. => Finding::new(Level::Notice, name, value, means, advice),
        _ => Finding::ok(name, value, "no transaction has been open for long"),
    })
}

fn old_snapshots(facts: &Facts) -> Option<Finding> {
    let age = facts.number("oldest_snapshot_age")?;
    let (name, value) = ("oldest snapshot", format!("{age} transactions"));
    let means = "vacuum cannot remove rows that died since it was taken: claims get slower";
    let advice = "end the transaction or slot that holds it: pg_stat_activity, pg_replication_slots, pg_prepared_xacts";
    let wrong = (Level::Warning, means, advice);
    Some(Finding::ok(name, value, "nothing keeps old rows for long").only_if(age <= SNAPSHOT_OLD, wrong))
}

fn isolation(facts: &Facts) -> Option<Finding> {
    let name = "default_transaction_isolation";
    let value = facts.text(name)?;
    Some(if value == "read committed" {
        Finding::ok(name, value, "it applies to handlers and your own transactions; ours are always READ COMMITTED")
    } else {
        let means = "handlers run at this level, ours do not: two of them that touch the same rows may make each \
                     other fail; they are retried at once, a few times";
        let advice = "read committed, unless your own code relies on it";
        Finding::new(Level::Notice, name, value, means, advice)
    })
}

/// A server process that is older than our connection was opened for another client.
fn pooler(facts: &Facts) -> Option<Finding> {
    let (server, ours) = (facts.number("backend_age_micros")?, facts.number("our.age_micros")?);
    let (name, is_declared) = ("pooler", facts.is_on("our.pooler")?);
    Some(match (server > ours, is_declared) {
        (true, true) => Finding::ok(name, "yes", "it is declared: nothing depends on one connection for long"),
        (true, false) => {
            let means = "there is a pooler in front of the server: if it gives each transaction another connection, \
                         prepared statements get lost";
            let advice = "unless it pools sessions: `pooler = true` in [store], `?pooler=true` in the URL, or \
                          PostgresOptions::behind_pooler()";
            Finding::new(Level::Warning, name, "yes", means, advice)
        }
        (false, true) => Finding::ok(name, "declared", "none was seen this time; a new connection looks the same"),
        (false, false) => Finding::ok(name, "none seen", "this connection leads to the server itself"),
    })
}

fn table(facts: &Facts, queue: &str) -> Vec<Finding> {
    let fact = |name: &str| facts.text(&format!("{queue}.{name}"));
    let number = |name: &str| facts.number(&format!("{queue}.{name}"));
    let mut findings = Vec::new();
    if fact("persistence").is_some_and(|kind| kind != "p") {
        let means = "the server empties an unlogged table when it recovers from a crash";
        let advice = format!("ALTER TABLE … SET LOGGED, for the {queue}");
        findings.push(Finding::new(Level::Danger, &format!("{queue} table"), "not logged", means, advice));
    }
    if fact("autovacuum").is_some_and(|value| !matches!(value, "on" | "true" | "yes" | "1")) {
        let means = "every claim skips over the dead rows of earlier claims: the queue gets slower and slower";
        let advice = "ALTER TABLE … RESET (autovacuum_enabled)";
        findings.push(Finding::new(Level::Warning, &format!("{queue} autovacuum"), "off", means, advice));
    }
    if let (Some(dead), Some(live)) = (number("dead_rows"), number("live_rows")) {
        let (name, value) = (format!("{queue} dead rows"), format!("{dead}, {live} live"));
        findings.push(if dead > DEAD_ROWS_MANY.max(live) {
            let means = "vacuum does not keep up, or an old snapshot blocks it: claims get slower";
            Finding::new(Level::Warning, &name, value, means, "look for old transactions, then VACUUM the table")
        } else {
            Finding::ok(&name, value, "vacuum keeps up")
        });
    }
    findings
}

#[cfg(test)]
mod tests;
