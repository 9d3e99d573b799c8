//! Judges what the settings of MySQL and MariaDB mean for messages.

mod questions;

pub(crate) use questions::QUESTIONS;

use crate::db::mysql::driver_sqlx_09::is_new_enough;

use crate::db::doctor::{Facts, Finding, Judge, Level, Report, judged, schema, server, times};

const MIB: i64 = 1 << 20;
/// More old row versions than this, waiting to be purged, are a problem.
const HISTORY_LONG: i64 = 1_000_000;

pub(crate) fn report(database: &str, facts: &Facts) -> Report {
    let version = facts.text("version").unwrap_or("of unknown version");
    let kind = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    let mut findings = judged(facts, JUDGES);
    findings.extend(read_only(facts));
    findings.extend(engines(facts));
    Report::new(format!("{kind} {version}, database {database}"), findings)
}

const JUDGES: &[Judge] = &[
    version,
    schema::is_there,
    schema::places,
    server::clock,
    times::ahead,
    flush_at_commit,
    sync_binlog,
    binlog_format,
    doublewrite,
    flush_method,
    force_recovery,
    galera,
    replication,
    isolation,
    history,
    max_allowed_packet,
    server::connections,
    |facts| server::encryption(facts, "ssl-mode=VERIFY_IDENTITY in the URL"),
];

fn version(facts: &Facts) -> Option<Finding> {
    let version = facts.text("version")?;
    let means = "without SKIP LOCKED workers wait for each other, and opening the store is refused";
    let wrong = (Level::Danger, means, "MySQL 8.0 or MariaDB 10.6 is the oldest");
    Some(Finding::ok("version", version, "new enough").only_if(is_new_enough(version), wrong))
}

fn flush_at_commit(facts: &Facts) -> Option<Finding> {
    let name = "innodb_flush_log_at_trx_commit";
    let value = facts.text(name)?;
    let means = match value {
        // MariaDB's value 3 flushes even more often.
        "1" | "3" => return Some(Finding::ok(name, value, "commits reach the disk")),
        "0" => "commits are written once a second: a crash of the server alone loses the last second",
        _ => "commits are flushed once a second: a power cut or a crash of the machine loses the last second",
    };
    Some(Finding::new(Level::Danger, name, value, means, "innodb_flush_log_at_trx_commit = 1"))
}

/// With a binary log, a transaction that is not in it is rolled back when the server recovers.
fn sync_binlog(facts: &Facts) -> Option<Finding> {
    let name = "sync_binlog";
    let value = facts.text(name).filter(|_| facts.is_on("log_bin") == Some(true))?;
    let means = "after a power cut the server undoes commits that the binary log has lost, and replicas miss them";
    let fine = Finding::ok(name, value, "commits are in the binary log before they are answered");
    Some(fine.only_if(value == "1", (Level::Danger, means, "sync_binlog = 1, or no binary log")))
}

fn binlog_format(facts: &Facts) -> Option<Finding> {
    let name = "binlog_format";
    let value = facts.text(name).filter(|_| facts.is_on("log_bin") == Some(true))?;
    let means = "the server refuses writes under READ COMMITTED, which is what claims need";
    let fine = Finding::ok(name, value, "changes are logged row by row");
    Some(fine.only_if(!value.eq_ignore_ascii_case("STATEMENT"), (Level::Danger, means, "binlog_format = ROW")))
}

fn doublewrite(facts: &Facts) -> Option<Finding> {
    let name = "innodb_doublewrite";
    let value = facts.text(name)?;
    let means = "a page that was half written in a power cut stays damaged";
    let advice = "innodb_doublewrite = ON, unless the storage never writes half a page";
    let fine = Finding::ok(name, value, "half-written pages can be repaired");
    Some(fine.only_if(facts.is_on(name)? && !value.eq_ignore_ascii_case("DETECT_ONLY"), (Level::Danger, means, advice)))
}

fn flush_method(facts: &Facts) -> Option<Finding> {
    let name = "innodb_flush_method";
    let value = facts.text(name)?;
    let is_lax = ["nosync", "littlesync"].iter().any(|lax| value.eq_ignore_ascii_case(lax));
    is_lax.then(|| {
        let means = "the server does not wait for the disk: a power cut loses commits and can damage the database";
        Finding::new(Level::Danger, name, value, means, "O_DIRECT or fsync")
    })
}

fn force_recovery(facts: &Facts) -> Option<Finding> {
    let name = "innodb_force_recovery";
    facts.number(name).filter(|level| *level > 0).map(|level| {
        let means = "the server runs in a rescue mode that refuses or damages writes";
        Finding::new(Level::Danger, name, level.to_string(), means, "save the data, rebuild the server, set it to 0")
    })
}

fn read_only(facts: &Facts) -> Vec<Finding> {
    let names = ["read_only", "super_read_only", "innodb_read_only"];
    let on: Vec<_> = names.into_iter().filter(|name| facts.is_on(name) == Some(true)).collect();
    let means = "the server takes no writes, as a replica does, and opening a store on it is refused";
    let finding = |name: &&str| Finding::new(Level::Danger, name, "on", means, "connect to the primary");
    match facts.text("read_only") {
        Some(value) if on.is_empty() => vec![Finding::ok("read_only", value, "the server takes writes")],
        _ => on.iter().map(finding).collect(),
    }
}

fn galera(facts: &Facts) -> Option<Finding> {
    facts.is_on("wsrep_on").filter(|is_on| *is_on).map(|_| {
        let nodes = facts.number("wsrep_cluster_size");
        let value = nodes.map_or_else(|| "on".into(), |nodes| format!("on, {nodes} nodes"));
        let means = "Galera: nodes do not see each other's row locks, so workers on different nodes claim the same \
                     rows and all but one start again at commit; a commit is answered before others have it on disk";
        let advice = "let all workers use one node, and keep innodb_flush_log_at_trx_commit = 1 on every node";
        Finding::new(Level::Warning, "wsrep_on", value, means, advice)
    })
}

fn replication(facts: &Facts) -> Option<Finding> {
    if facts.is_on("slave_running") == Some(true) {
        let means = "this server is a replica: writes here may be overwritten, and do not reach the primary";
        return Some(Finding::new(Level::Warning, "replication", "replica", means, "connect to the primary"));
    }
    let replicas = facts.number("slaves_connected")?;
    Some(match replicas {
        0 => Finding::ok("replication", "none", "no replica is connected: data that this server loses is lost"),
        _ => {
            let means =
                format!("{replicas} connected; unless it is semi-synchronous, failing over loses the last commits");
            let advice = "semi-synchronous replication, if a failover must lose nothing";
            Finding::new(Level::Notice, "replication", "primary", means, advice)
        }
    })
}

fn isolation(facts: &Facts) -> Option<Finding> {
    let name = "transaction_isolation";
    let value = facts.text(name).or_else(|| facts.text("tx_isolation"))?;
    Some(Finding::ok(name, value, "it applies to your own transactions; ours and those of handlers are READ COMMITTED"))
}

fn history(facts: &Facts) -> Option<Finding> {
    let length = facts.number("innodb_history_list_length")?;
    let (name, value) = ("history list length", length.to_string());
    let means = "an old transaction keeps the server from purging old row versions: claims get slower";
    let wrong = (Level::Warning, means, "end it: information_schema.innodb_trx shows the oldest");
    Some(Finding::ok(name, value, "nothing keeps old rows for long").only_if(length <= HISTORY_LONG, wrong))
}

fn max_allowed_packet(facts: &Facts) -> Option<Finding> {
    let bytes = facts.number("max_allowed_packet")?;
    let (name, value) = ("max_allowed_packet", format!("{} MiB", bytes / MIB));
    let means = "a larger message, or a larger batch of them, is refused";
    let advice = "64M, or more than a thousand of your messages need";
    Some(match bytes / MIB {
        16.. => Finding::ok(name, value, means),
        4.. => Finding::new(Level::Notice, name, value, means, advice),
        _ => Finding::new(Level::Warning, name, value, means, advice),
    })
}

fn engines(facts: &Facts) -> Vec<Finding> {
    let others: Vec<_> = facts.under("engine.").filter(|(_, engine)| !engine.eq_ignore_ascii_case("InnoDB")).collect();
    if others.is_empty() {
        let is_there = facts.under("engine.").next().is_some();
        let fine = is_there.then(|| Finding::ok("storage engine", "InnoDB", "the tables take part in transactions"));
        return fine.into_iter().collect();
    }
    let finding = |(table, engine): &(&str, &str)| {
        let means = "this engine has no transactions: none of the guarantees hold";
        let advice = format!("ALTER TABLE {table} ENGINE = InnoDB");
        Finding::new(Level::Danger, &format!("storage engine of {table}"), *engine, means, advice)
    };
    others.iter().map(finding).collect()
}

#[cfg(test)]
mod tests;
