//! `postroom tail`: follows what happens in the queues.

mod follow;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::clock::Timestamp;
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use self::follow::Follower;
use super::{Global, QueueArg};
use crate::up::signals::Signals;
use crate::{duration, open, output};

/// Follow the queues: one line for each message that is enqueued, fails, is done or dies; Ctrl-C quits
///
/// Only new events are shown. For earlier ones, use `postroom top`, `failed` and `show`.
#[derive(Args)]
pub(crate) struct Tail {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueArg>,

    /// Only this topic
    #[arg(long)]
    topic: Option<String>,

    /// Only messages to this service (outbox)
    #[arg(long, value_name = "SERVICE", conflicts_with = "source")]
    destination: Option<String>,

    /// Only messages from this service (inbox)
    #[arg(long, value_name = "SERVICE")]
    source: Option<String>,

    /// Only this event. Repeat this option for more
    #[arg(long = "state", value_name = "STATE")]
    states: Vec<Happened>,

    /// How often to poll the database
    #[arg(long, value_name = "DUR", default_value = "500ms", value_parser = parse_interval)]
    interval: Duration,

    /// Print the payload too. It may contain secrets
    #[arg(long)]
    show_payload: bool,
}

/// What happened to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Happened {
    /// The message was enqueued, or arrived in the inbox
    Enqueued,
    /// An attempt failed
    Failed,
    Done,
    Dead,
    Expired,
    Dismissed,
}

/// One line.
#[derive(Serialize)]
struct Event {
    at: String,
    #[serde(skip)]
    time: Timestamp,
    #[serde(skip)]
    seq: i64,
    queue: &'static str,
    state: Happened,
    id: String,
    topic: String,
    destination: Option<String>,
    source: Option<String>,
    attempts: u32,
    error: Option<String>,
    payload_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

impl Tail {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let queues = QueueArg::with_parties(self.queue, self.destination.as_deref(), self.source.as_deref())?;
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let mut signals = Signals::new()?;
        let mut followers = Vec::new();
        for queue in queues {
            followers.push(Follower::begin(queue, opened.queue(queue), self.show_payload).await?);
        }
        eprintln!("following {}; press Ctrl-C to quit", database.shown());
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = signals.next() => return Ok(()),
            }
            let mut events = Vec::new();
            for follower in &mut followers {
                events.extend(follower.look(self.interval).await?);
            }
            events.sort_by_key(|event| (event.time, event.seq));
            for event in events.iter().filter(|event| self.is_wanted(event)) {
                if global.json { output::json(event)? } else { output::line(event.line())? }
            }
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        let is_named = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        is_named(&self.topic, Some(&event.topic))
            && is_named(&self.destination, event.destination.as_deref())
            && is_named(&self.source, event.source.as_deref())
            && (self.states.is_empty() || self.states.contains(&event.state))
    }
}

impl Event {
    fn line(&self) -> String {
        let time = self.at.split(['T', 'Z']).nth(1).and_then(|time| time.get(..12)).unwrap_or(&self.at);
        let state = format!("{:?}", self.state).to_lowercase();
        let (topic, id) = (output::one_line(&self.topic), output::one_line(&self.id));
        let party = match (&self.destination, &self.source) {
            (Some(to), _) => format!("  to {}", output::one_line(to)),
            (_, Some(from)) => format!("  from {}", output::one_line(from)),
            _ => String::new(),
        };
        let error = self.error.as_deref().map_or_else(String::new, |error| format!(": {}", output::one_line(error)));
        let more = match self.state {
            Happened::Enqueued => output::count(self.payload_bytes, "byte"),
            Happened::Failed => format!("attempt {}{error}", self.attempts),
            Happened::Done => String::new(),
            Happened::Dead => format!("{}{error}", output::count(self.attempts.into(), "failed attempt")),
            Happened::Expired => "not delivered in time".to_owned(),
            Happened::Dismissed => "by an operator".to_owned(),
        };
        let payload =
            self.payload.as_deref().map_or_else(String::new, |payload| format!("  {}", output::one_line(payload)));
        format!("{time}  {:<6}  {state:<8}  {id}  {topic}{party}  {more}{payload}", self.queue).trim_end().to_owned()
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        interval if interval < Duration::from_millis(20) => Err("it must be at least 20ms".into()),
        interval => Ok(interval),
    }
}
