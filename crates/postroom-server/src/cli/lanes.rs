//! `postroom lanes`: the deepest lanes, and those that are blocked.

use anyhow::Result;
use clap::Args;
use postroom::clock::Timestamp;
use postroom::operator::{Lane, LanePlace, Lanes as Seen};
use postroom::queue::Queue;
use serde_json::{Value, json};

use super::{Global, QueueArg};
use crate::open::Opened;
use crate::{duration, lane, open, output};

/// The most lanes of each queue: each is a question to the database.
const LIMIT_MAX: i64 = 1000;

/// Show the deepest lanes, what their first messages do, and which lanes are blocked by a dead message
///
/// The messages of a lane are handled one after the other: all wait for the first one. The deepest lanes are looked for
/// among the oldest and the newest 5,000 messages that wait in lanes, and blocked ones among the 5,000 messages that
/// have been dead the longest. So ten million lanes cost no more than ten thousand.
#[derive(Args)]
pub(crate) struct Lanes {
    /// Only lanes that are blocked by a dead message, those that have been blocked the longest first
    #[arg(long)]
    blocked: bool,

    /// At most this many lanes of each queue
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=LIMIT_MAX))]
    limit: u16,

    /// Only this queue
    #[arg(long)]
    queue: Option<QueueArg>,
}

impl Lanes {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let lanes = of(&opened, &QueueArg::or_both(self.queue), usize::from(self.limit)).await?;
        let now = opened.store().clock().now();
        if global.json {
            return output::json(&lanes.iter().map(|(queue, lanes)| self.json(*queue, lanes)).collect::<Vec<_>>());
        }
        for (queue, lanes) in lanes.iter().filter(|(_, lanes)| !self.shown(lanes).is_empty()) {
            output::line(lane::counted(*queue, lanes))?;
            output::line(format!("  {:>8}  {:>6}  {:<24}  first message", "messages", "since", "lane"))?;
            for lane in self.shown(lanes) {
                output::line(row(*queue, lane, now))?;
            }
        }
        if lanes.iter().all(|(_, lanes)| self.shown(lanes).is_empty()) {
            eprintln!("{}", if self.blocked { "no lane is blocked" } else { "no lane has messages" });
        }
        if lanes.iter().any(|(_, lanes)| lanes.blocked_lanes > 0) {
            eprintln!("{}", lane::UNBLOCK);
        }
        Ok(())
    }

    fn shown<'a>(&self, lanes: &'a Seen) -> &'a [Lane] {
        if self.blocked { &lanes.blocked } else { &lanes.deepest }
    }

    fn json(&self, queue: Queue, lanes: &Seen) -> Value {
        let shown: Vec<_> = self.shown(lanes).iter().map(|lane| told(queue, lane)).collect();
        json!({
            "queue": queue.as_str(), "lanes": lanes.lanes, "blocked_lanes": lanes.blocked_lanes, "shown": shown,
        })
    }
}

/// The lanes of these queues.
pub(super) async fn of(opened: &Opened, queues: &[Queue], limit: usize) -> Result<Vec<(Queue, Seen)>> {
    let mut lanes = Vec::new();
    for queue in queues {
        lanes.push((*queue, opened.queue(*queue).lanes(limit).await?));
    }
    Ok(lanes)
}

fn row(queue: Queue, lane: &Lane, now: Timestamp) -> String {
    let (name, first) = (output::one_line(&lane.name), &lane.first);
    let (depth, since) = (lane::depth(lane), duration::short(now.since(first.created_at)));
    let doing = lane::doing(first, now);
    format!("  {depth:>8}  {since:>6}  {name:<24}  {}  {doing}", lane::id(queue, first))
}

fn told(queue: Queue, lane: &Lane) -> Value {
    let first = &lane.first;
    json!({
        "name": lane.name, "messages": lane.messages, "blocked": lane.is_blocked(),
        "first": {
            "id": lane::id(queue, first), "row": first.seq, "topic": first.topic, "state": output::state(first.state),
            "attempts": first.attempts, "created_at": first.created_at.to_string(),
            "visible_at": first.visible_at.map(|at| at.to_string()),
        },
    })
}

/// Where a message stands in its lane, as JSON.
pub(super) fn place(queue: Queue, place: &LanePlace) -> Value {
    json!({ "ahead": place.ahead, "lane": told(queue, &place.lane) })
}
