//! `postroom stats`: counts messages by state.

use anyhow::Result;
use clap::Args;
use postroom::operator::QueueStats;
use postroom::queue::Queue;
use serde::Serialize;
use serde_json::json;

use super::{Global, lanes, rules};
use crate::{duration, lane, open, output};

/// Count the messages of both queues by state
#[derive(Args)]
pub(crate) struct Stats {}

#[derive(Serialize)]
pub(super) struct Counts {
    pub(super) ready: u64,
    pub(super) leased: u64,
    pub(super) done: u64,
    pub(super) dead: u64,
    pub(super) expired: u64,
    pub(super) seen: u64,
    pub(super) processing: u64,
    pub(super) dismissed: u64,
    pub(super) total: u64,
    pub(super) oldest_waiting_ms: Option<u128>,
}

impl From<&QueueStats> for Counts {
    fn from(stats: &QueueStats) -> Self {
        Self {
            ready: stats.ready,
            leased: stats.leased,
            done: stats.done,
            dead: stats.dead,
            expired: stats.expired,
            seen: stats.seen,
            processing: stats.processing,
            dismissed: stats.dismissed,
            total: stats.total(),
            oldest_waiting_ms: stats.oldest_waiting.map(|age| age.as_millis()),
        }
    }
}

impl Stats {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let (outbox, inbox) = (opened.queue(Queue::Outbox), opened.queue(Queue::Inbox));
        let held = [outbox.holds().await?, inbox.holds().await?];
        let rules = rules::of(&opened, &[Queue::Outbox, Queue::Inbox]).await?;
        let lanes = lanes::of(&opened, &[Queue::Outbox, Queue::Inbox], 1).await?;
        let (outbox, inbox) = (outbox.stats().await?, inbox.stats().await?);
        if global.json {
            let (outbox, inbox) = (Counts::from(&outbox), Counts::from(&inbox));
            let held: Vec<_> = held.iter().flatten().map(output::HoldJson::from).collect();
            let rules: Vec<_> = rules.iter().map(|(queue, rule)| rules::told(*queue, rule)).collect();
            let blocked =
                |of: Queue| lanes.iter().find(|(queue, _)| *queue == of).map(|(_, lanes)| lanes.blocked_lanes);
            let blocked = json!({ "outbox": blocked(Queue::Outbox), "inbox": blocked(Queue::Inbox) });
            return output::json(&json!({
                "outbox": outbox, "inbox": inbox, "held": held, "rules": rules, "blocked_lanes": blocked,
            }));
        }
        let titles = ["ready", "leased", "done", "dead", "expired", "seen"].map(|title| format!("{title:>9}"));
        output::line(format!("{:<7}{}{:>11}  oldest ready", "", titles.concat(), "dismissed"))?;
        print("outbox", &outbox)?;
        print("inbox", &inbox)?;
        for hold in held.iter().flatten() {
            output::line(output::waiting(hold))?;
        }
        for (queue, rule) in &rules {
            output::line(output::rule(*queue, rule))?;
        }
        for blocked in lanes.iter().filter_map(|(queue, lanes)| lane::blocked(*queue, lanes)) {
            output::line(format!("{blocked}; `postroom lanes --blocked` shows more"))?;
        }
        if outbox.dead + outbox.expired + inbox.dead + inbox.expired > 0 {
            eprintln!("`postroom failed` lists dead and expired messages");
        }
        Ok(())
    }
}

fn print(name: &str, stats: &QueueStats) -> Result<()> {
    // A message that is handled outside the queue counts as seen: one column is enough for people.
    let seen = stats.seen + stats.processing;
    let counts = [stats.ready, stats.leased, stats.done, stats.dead, stats.expired, seen];
    let counts = counts.map(|count| format!("{:>9}", output::thousands(count)));
    let oldest = stats.oldest_waiting.map_or_else(|| "-".into(), duration::short);
    let dismissed = output::thousands(stats.dismissed);
    output::line(format!("{name:<7}{}{dismissed:>11}  {oldest}", counts.concat()))
}
