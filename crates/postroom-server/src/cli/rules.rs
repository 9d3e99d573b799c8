//! `postroom pause`, `resume`, `limit` and `rules`: what operators set for a queue, a topic, a destination or a lane.

use std::str::FromStr;

use anyhow::{Result, bail};
use clap::Args;
use postroom::operator::{Limit, OnDead, Rule, Scope};
use postroom::queue::Queue;
use serde_json::json;

use super::signed::Signed;
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::problem::Problem;
use crate::{duration, open, output};

/// What a command is about.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["all", "topic", "destination", "lane", "lanes_of"])))]
struct Which {
    /// The whole queue
    #[arg(long)]
    all: bool,

    /// The messages of this topic that are handled here
    #[arg(long)]
    topic: Option<String>,

    /// The messages to this service (outbox)
    #[arg(long, value_name = "SERVICE")]
    destination: Option<String>,

    /// The messages of this lane
    #[arg(long)]
    lane: Option<String>,

    /// The messages of all lanes whose first message has this topic
    #[arg(long, value_name = "TOPIC")]
    lanes_of: Option<String>,

    /// Only in this queue
    #[arg(long)]
    queue: Option<QueueArg>,
}

impl Which {
    fn scope(&self) -> Result<Scope> {
        Ok(match self {
            Self { topic: Some(topic), .. } => Scope::topic(topic)?,
            Self { destination: Some(destination), .. } => Scope::destination(destination)?,
            Self { lane: Some(lane), .. } => Scope::lane(lane)?,
            Self { lanes_of: Some(topic), .. } => Scope::lanes(topic)?,
            _ => Scope::Queue,
        })
    }

    fn queues(&self) -> Result<Vec<Queue>> {
        QueueArg::with_parties(self.queue, self.destination.as_deref(), None)
    }
}

/// Pause a queue, a topic, a destination or a lane: its messages wait and spend no attempt, until you resume it
///
/// Workers of all processes notice within a second. Messages in progress end as usual. A pause is stored in the
/// database, with your name and reason; `postroom rules`, `stats`, `explain`, the health and the page show it.
#[derive(Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    signed: Signed,
}

impl Pause {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let (scope, operator) = (self.which.scope()?, self.signed.bare()?);
        let opened = open::existing(&global.database()?).await?;
        let mut paused = Vec::new();
        for queue in self.which.queues()? {
            if opened.queue(queue).pause(scope.clone(), operator.clone()).await? {
                paused.push(queue);
            }
        }
        answer(global, &scope, ("paused", "was paused already"), &paused)
    }
}

/// Let a paused queue, topic, destination or lane go on
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    signed: Signed,
}

impl Resume {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let (scope, operator) = (self.which.scope()?, self.signed.bare()?);
        let opened = open::existing(&global.database()?).await?;
        let mut resumed = Vec::new();
        for queue in self.which.queues()? {
            if opened.queue(queue).resume(scope.clone(), operator.clone()).await? {
                resumed.push(queue);
            }
        }
        answer(global, &scope, ("resumed", "was not paused"), &resumed)
    }
}

/// Limit how many messages of a topic, a destination or a lane are in progress at once, or start in a time
///
/// The limit holds over all workers of all processes. It takes the place of an earlier one. Each attempt counts, so
/// retries do too. A lane without a limit has one message in progress at once, and waits behind a dead one.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("limit").required(true).multiple(true)
    .args(["at_once", "rate", "on_dead", "none"])))]
pub(crate) struct SetLimit {
    #[command(flatten)]
    which: Which,

    /// At most this many messages in progress at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,

    /// At most this many messages in a time: 10/s, 100/m, 1000/h, or any duration as in 5/30s
    #[arg(long, value_name = "N/TIME", value_parser = rate)]
    rate: Option<Rate>,

    /// With --rate: how many messages may start at once after a rest
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,

    /// For lanes: when a message dies, wait behind it (block), go on (skip), or go on with the newest alone (newest)
    #[arg(long, value_name = "POLICY", value_parser = OnDead::from_str)]
    on_dead: Option<OnDead>,

    /// Remove the limit
    #[arg(long, conflicts_with_all = ["at_once", "rate", "burst", "on_dead"])]
    none: bool,

    #[command(flatten)]
    signed: Signed,
}

/// How many messages in which time.
#[derive(Clone, Copy)]
struct Rate(u32, std::time::Duration);

fn rate(text: &str) -> Result<Rate, String> {
    let parts = text.split_once('/').and_then(|(messages, time)| Some((messages.trim().parse().ok()?, time.trim())));
    let Some((messages, time)) = parts else {
        return Err("write a rate as 10/s, 100/m, 1000/h or 5/30s".to_owned());
    };
    let is_one = !time.starts_with(|first: char| first.is_ascii_digit());
    duration::parse_positive(&if is_one { format!("1{time}") } else { time.to_owned() }).map(|per| Rate(messages, per))
}

impl SetLimit {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let scope = self.which.scope()?;
        if scope == Scope::Queue {
            let what = "a limit is for a topic, a destination or a lane, not for a whole queue";
            bail!(Problem::new(what, "--topic, --destination, --lane or --lanes-of"));
        }
        let limit = self.limit();
        let operator = self.signed.bare()?;
        let opened = open::existing(&global.database()?).await?;
        let queues = self.which.queues()?;
        for queue in &queues {
            opened.queue(*queue).limit(scope.clone(), limit, operator.clone()).await?;
        }
        answer(global, &scope, (&format!("limited ({limit})"), ""), &queues)
    }

    fn limit(&self) -> Limit {
        let limit = self.at_once.iter().fold(Limit::none(), |limit, messages| limit.at_once(*messages));
        let limit = self.rate.iter().fold(limit, |limit, Rate(messages, per)| limit.rate(*messages, *per));
        let limit = self.burst.iter().fold(limit, |limit, messages| limit.burst(*messages));
        self.on_dead.iter().fold(limit, |limit, policy| limit.on_dead(*policy))
    }
}

fn answer(global: &Global, scope: &Scope, (done, not): (&str, &str), changed: &[Queue]) -> Result<()> {
    if global.json {
        let queues: Vec<_> = changed.iter().map(|queue| queue.as_str()).collect();
        return output::json(&json!({ "kind": scope.kind(), "name": scope.name(), "changed": queues }));
    }
    let scope = output::one_line(&scope.to_string());
    match changed {
        [] => eprintln!("{scope} {not}"),
        queues => {
            let queues: Vec<_> = queues.iter().map(|queue| format!("the {queue}")).collect();
            output::line(format!("{done}: {scope} in {}", queues.join(" and ")))?;
        }
    }
    Ok(())
}

/// List what is paused or limited, since when, by whom and why
#[derive(Args)]
pub(crate) struct Rules {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueArg>,
}

impl Rules {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let rules = of(&opened, &QueueArg::or_both(self.queue)).await?;
        if global.json {
            return output::json(&rules.iter().map(|(queue, rule)| told(*queue, rule)).collect::<Vec<_>>());
        }
        for (queue, rule) in &rules {
            output::line(output::rule(*queue, rule))?;
        }
        if rules.is_empty() {
            eprintln!("nothing is paused or limited");
        }
        Ok(())
    }
}

/// The rules of these queues.
pub(super) async fn of(opened: &Opened, queues: &[Queue]) -> Result<Vec<(Queue, Rule)>> {
    let mut rules = Vec::new();
    for queue in queues {
        rules.extend(opened.queue(*queue).rules().await?.into_iter().map(|rule| (*queue, rule)));
    }
    Ok(rules)
}

pub(super) fn told(queue: Queue, rule: &Rule) -> serde_json::Value {
    let paused =
        rule.paused.as_ref().map(|pause| json!({ "since": pause.since.to_string(), "by": pause.by, "why": pause.why }));
    json!({
        "queue": queue.as_str(), "kind": rule.scope.kind(), "name": rule.scope.name(), "paused": paused,
        "limit": rule.limit.map(|limit| limit.to_string()), "waiting": rule.waiting,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, messages, seconds) in
            [("10/s", 10, 1), ("100/m", 100, 60), ("1000 / h", 1000, 3600), ("5/30s", 5, 30)]
        {
            let Rate(n, per) = rate(text).unwrap();
            assert_eq!((n, per), (messages, Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "/s", "x/s", "10/", "10/fortnight", "-1/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
