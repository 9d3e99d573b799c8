//! `postroom revive`: requeues selected dead and expired messages, with a dry run.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::operator::{Filter, Record};
use postroom::queue::{Queue, State};

use super::lookup::{self, Found};
use super::signed::Signed;
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::operator::{Count, Reviving};
use crate::problem::Problem;
use crate::{duration, open, output};

/// Requeue selected dead and expired messages, as if they were new, with a dry run
///
/// Expired messages need --ttl. Dismissed messages are requeued by their id or with --dismissed. With --dry-run,
/// nothing changes and the messages are only counted.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)
          .args(["id", "all", "topic", "destination", "source"])))]
pub(crate) struct Revive {
    /// The id of the message; for the inbox also SOURCE/ID
    #[arg(conflicts_with_all = ["all", "topic", "destination", "source", "queue", "limit"])]
    id: Option<String>,

    /// Every dead and expired message
    #[arg(long)]
    all: bool,

    /// Requeue dismissed messages instead of dead and expired ones
    #[arg(long, conflicts_with = "id")]
    dismissed: bool,

    /// Messages with this topic
    #[arg(long)]
    topic: Option<String>,

    /// Messages to this service (outbox)
    #[arg(long, value_name = "SERVICE", conflicts_with = "source")]
    destination: Option<String>,

    /// Messages from this service (inbox)
    #[arg(long, value_name = "SERVICE")]
    source: Option<String>,

    /// Only in this queue
    #[arg(long)]
    queue: Option<QueueArg>,

    /// Requeue at most this many messages, oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// A new time to live. Expired messages need one
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    ttl: Option<Duration>,

    /// Change nothing; count the messages that would be requeued
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    signed: Signed,
}

impl Revive {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let queues = QueueArg::with_parties(self.queue, self.destination.as_deref(), self.source.as_deref())?;
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let count = match &self.id {
            Some(id) => self.one(&opened, lookup::by_id(&opened, id).await?, id).await?,
            None => self.many(&opened, &queues).await?,
        };
        if global.json {
            return output::json(&serde_json::json!({
                "revived": count.revived, "still_expired": count.still_expired, "dry_run": self.dry_run,
            }));
        }
        let would = if self.dry_run { "would be " } else { "" };
        output::line(format!("{} {would}requeued", output::count(count.revived, "message")))?;
        if count.still_expired > 0 {
            let stay = if self.dry_run { "would stay" } else { "stayed" };
            let count = output::count(count.still_expired, "message");
            eprintln!("{count} {stay} expired; --ttl 1h sets a new time to live");
        }
        Ok(())
    }

    async fn one(&self, opened: &Opened, found: Vec<Found>, id: &str) -> Result<Count> {
        let is_over = |record: &Record| matches!(record.state(), State::Dead | State::Expired | State::Dismissed);
        let mut count = Count::default();
        for Found { queue, record } in found.iter().filter(|found| is_over(&found.record)) {
            let filter = Filter::one(record.seq()).state(record.state());
            count.add(self.revive(opened, *queue, &filter, None).await?);
        }
        if count.revived > 0 {
            return Ok(count);
        }
        if count.still_expired > 0 {
            bail!(Problem::new(format!("{id} has expired"), "`--ttl 1h`, which sets a new time to live"));
        }
        let states: Vec<_> = found.iter().map(|found| output::state(found.record.state())).collect();
        let what =
            format!("{id} is {}; only dead, expired and dismissed messages can be requeued", states.join(" and "));
        bail!(Problem::new(what, format!("`postroom explain {id}`, which explains its state")));
    }

    async fn many(&self, opened: &Opened, queues: &[Queue]) -> Result<Count> {
        let mut count = Count::default();
        for queue in queues {
            let states: &[_] = if self.dismissed { &[State::Dismissed] } else { &[State::Dead, State::Expired] };
            for &state in states {
                let left = self.limit.map(|limit| limit.saturating_sub(count.revived));
                count.add(self.revive(opened, *queue, &self.filter(state), left).await?);
            }
        }
        Ok(count)
    }

    fn filter(&self, state: State) -> Filter {
        let filter = self.topic.iter().fold(Filter::all().state(state), |filter, topic| filter.topic(topic));
        self.destination.iter().chain(&self.source).fold(filter, |filter, party| filter.party(party))
    }

    /// Requeues those rows, or counts them in a dry run.
    async fn revive(&self, opened: &Opened, queue: Queue, filter: &Filter, most: Option<u64>) -> Result<Count> {
        let operator = self.signed.operator(&[
            ("message", self.id.as_deref()),
            ("topic", self.topic.as_deref()),
            ("destination", self.destination.as_deref()),
            ("source", self.source.as_deref()),
        ])?;
        let (queue, store) = (opened.queue(queue).by(operator), opened.store());
        let reviving = Reviving {
            queue: &queue,
            clock: store.clock(),
            revival: self.ttl.into(),
            dry_run: self.dry_run,
            most: most.unwrap_or(u64::MAX),
        };
        Ok(reviving.those(filter, |_| true).await?)
    }
}
