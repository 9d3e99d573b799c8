//! `postroom failed`: lists dead letters and their errors.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use postroom::operator::{Filter, Record};
use postroom::queue::{Queue, State, WorkQueue};
use serde::Serialize;

use super::{Global, QueueArg, lookup};
use crate::{open, output};

/// List dead and expired messages, or dismissed ones, grouped by topic and error
#[derive(Args)]
pub(crate) struct Failed {
    /// Only this topic
    #[arg(long)]
    topic: Option<String>,

    /// Only this queue
    #[arg(long)]
    queue: Option<QueueArg>,

    /// List dismissed messages instead, with who dismissed them and why
    #[arg(long)]
    dismissed: bool,

    /// List at most this many messages of each queue, oldest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Serialize)]
struct Row {
    queue: &'static str,
    id: String,
    source: Option<String>,
    destination: Option<String>,
    topic: String,
    state: String,
    attempts: u32,
    crashes: u32,
    error: Option<String>,
    at: Option<String>,
    dismissed_by: Option<String>,
    dismissed_why: Option<String>,
    #[serde(skip)]
    told: String,
}

impl Failed {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let mut rows = Vec::new();
        let mut left_out = false;
        for queue in QueueArg::or_both(self.queue) {
            let mut records = self.records(&opened.queue(queue)).await?;
            let limit = usize::try_from(self.limit)?;
            left_out |= records.len() > limit;
            records.truncate(limit);
            rows.extend(records.iter().map(|record| Row::new(queue, record)));
        }
        if global.json {
            return output::json(&rows);
        }
        print_groups(&rows)?;
        if rows.is_empty() {
            let what = if self.dismissed { "dismissed" } else { "dead or expired" };
            let of_topic = self.topic.map_or_else(String::new, |topic| format!(" with the topic {topic}"));
            eprintln!("no {what} messages{of_topic}");
        } else if self.dismissed {
            let more = if left_out { "there are more: use --limit; " } else { "" };
            eprintln!("{more}`postroom revive ID` requeues a dismissed message");
        } else {
            let more = if left_out { "there are more: use --limit; " } else { "" };
            let (retry, dismiss) =
                ("`postroom retry ID` requeues it", "`postroom dismiss ID --why …` takes it off this list");
            eprintln!("{more}`postroom show ID` shows a message, {retry}, {dismiss}");
        }
        Ok(())
    }

    /// The dead and expired messages, or the dismissed ones, in the order of their rows. One more than the limit if
    /// there are more.
    async fn records(&self, queue: &WorkQueue) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let states: &[_] = if self.dismissed { &[State::Dismissed] } else { &[State::Dead, State::Expired] };
        for &state in states {
            let mut filter = Filter::all().state(state).limit(usize::try_from(self.limit)?.saturating_add(1));
            if let Some(topic) = &self.topic {
                filter = filter.topic(topic);
            }
            records.extend(queue.list(filter).await?);
        }
        records.sort_by_key(Record::seq);
        Ok(records)
    }
}

impl Row {
    fn new(queue: Queue, record: &Record) -> Self {
        let message = record.message().ok();
        Self {
            queue: queue.as_str(),
            id: message.map_or_else(|| format!("unreadable row {}", record.seq()), postroom::Message::id),
            source: message.and_then(|message| message.source()).map(str::to_owned),
            destination: message.and_then(|message| message.destination()).map(str::to_owned),
            topic: message.map_or_else(String::new, |message| message.topic.clone()),
            state: output::state(record.state()),
            attempts: record.attempts(),
            crashes: record.crashes(),
            error: record.last_error().map(str::to_owned),
            at: record.processed_at().map(|at| at.to_string()),
            dismissed_by: record.dismissal().map(|dismissal| dismissal.who().to_owned()),
            dismissed_why: record.dismissal().and_then(|dismissal| dismissal.why().map(str::to_owned)),
            told: told(record),
        }
    }
}

fn told(record: &Record) -> String {
    let id = record.message().map_or_else(|_| format!("unreadable row {}", record.seq()), lookup::id_of);
    let id = output::one_line(&id);
    let attempts = output::count(u64::from(record.attempts()), "failed attempt");
    let when = record.processed_at().map(output::moment).unwrap_or_default();
    let dismissed = record.dismissal().map_or_else(String::new, |dismissal| {
        let why = output::one_line(dismissal.why().unwrap_or_default());
        format!("  by {}: {why}", output::one_line(dismissal.who()))
    });
    format!("  {id}  {}  {attempts}  {when}{dismissed}", output::state(record.state()))
}

fn print_groups(rows: &[Row]) -> Result<()> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let error = row.error.as_deref().unwrap_or("not delivered in time");
        groups.entry((row.queue, &row.topic, error)).or_default().push(row);
    }
    for ((queue, topic, error), rows) in groups {
        let (topic, error) = (output::one_line(topic), output::one_line(error));
        output::line(format!("{queue} {topic}, {}: {error}", rows.len()))?;
        rows.iter().try_for_each(|row| output::line(&row.told))?;
    }
    Ok(())
}
