//! `postroom revive`: dead and expired messages back in line, chosen and counted before.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::{Filter, Queue, Record, State};

use super::lookup::{self, Found};
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::problem::Problem;
use crate::{duration, open, output};

/// So many rows in one transaction.
const PAGE: usize = 1000;

/// Put dead and expired messages back in line, as if they were new: one, some or all of them
///
/// Expired ones need --ttl. With --dry-run nothing is changed, and what would be is counted.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)
          .args(["id", "all", "topic", "destination", "source"])))]
pub(crate) struct Revive {
    /// The message: its id, for the inbox also SOURCE/ID
    #[arg(conflicts_with_all = ["all", "topic", "destination", "source", "queue", "limit"])]
    id: Option<String>,

    /// Every dead and expired message
    #[arg(long)]
    all: bool,

    /// Those with this topic
    #[arg(long)]
    topic: Option<String>,

    /// Those to this service; only the outbox has such
    #[arg(long, value_name = "SERVICE", conflicts_with = "source")]
    destination: Option<String>,

    /// Those from this service; only the inbox has such
    #[arg(long, value_name = "SERVICE")]
    source: Option<String>,

    /// Only in this queue
    #[arg(long)]
    queue: Option<QueueArg>,

    /// At most so many, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// A new time to live; expired messages need one
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    ttl: Option<Duration>,

    /// Change nothing, and say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Copy, Default)]
struct Count {
    revived: u64,
    still_expired: u64,
}

impl Revive {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let queues = QueueArg::with_parties(self.queue, self.destination.as_deref(), self.source.as_deref())?;
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let count = match &self.id {
            Some(id) => self.one(&opened, lookup::by_id(&opened, &database, id).await?, id).await?,
            None => self.many(&opened, &queues).await?,
        };
        if global.json {
            return output::json(&serde_json::json!({
                "revived": count.revived, "still_expired": count.still_expired, "dry_run": self.dry_run,
            }));
        }
        let would = if self.dry_run { "would be " } else { "" };
        output::line(format!("{} {would}back in line", output::count(count.revived, "message")))?;
        if count.still_expired > 0 {
            let stay = if self.dry_run { "would stay" } else { "stayed" };
            let count = output::count(count.still_expired, "message");
            eprintln!("{count} {stay} expired; --ttl 1h gives a new time to live");
        }
        Ok(())
    }

    async fn one(&self, opened: &Opened, found: Vec<Found>, id: &str) -> Result<Count> {
        let is_over = |record: &Record| matches!(record.state(), State::Dead | State::Expired);
        let mut count = Count::default();
        for Found { queue, record } in found.iter().filter(|found| is_over(&found.record)) {
            let (row, page) = (Filter::one(record.seq()), std::slice::from_ref(record));
            count.add(self.revive(opened, *queue, page, row).await?);
        }
        if count.revived > 0 {
            return Ok(count);
        }
        if count.still_expired > 0 {
            let advice = "`--ttl 1h`, which gives it a new time to live";
            bail!(Problem::new(format!("the time to live of {id} is over"), advice));
        }
        let states: Vec<_> = found.iter().map(|found| output::state(found.record.state())).collect();
        let what = format!("{id} is {}; only dead and expired messages are put back", states.join(" and "));
        bail!(Problem::new(what, format!("`postroom explain {id}`, which says why it stands where it stands")));
    }

    async fn many(&self, opened: &Opened, queues: &[Queue]) -> Result<Count> {
        let mut count = Count::default();
        for queue in queues {
            for state in [State::Dead, State::Expired] {
                let left = self.limit.map(|limit| limit.saturating_sub(count.revived));
                count.add(self.pages(opened, *queue, &self.filter(state), left).await?);
            }
        }
        Ok(count)
    }

    fn filter(&self, state: State) -> Filter {
        let filter = self.topic.iter().fold(Filter::all().state(state), |filter, topic| filter.topic(topic));
        self.destination.iter().chain(&self.source).fold(filter, |filter, party| filter.party(party))
    }

    /// Page by page: rows that cannot go back must not hide those behind them.
    async fn pages(&self, opened: &Opened, queue: Queue, filter: &Filter, limit: Option<u64>) -> Result<Count> {
        let (mut count, mut after) = (Count::default(), 0);
        loop {
            let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(count.revived));
            let rows = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
            if rows == 0 {
                return Ok(count);
            }
            let filter = filter.clone().after(after).limit(rows);
            let page = opened.queue(queue).list(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = last.seq();
            count.add(self.revive(opened, queue, &page, filter).await?);
        }
    }

    /// Revives the rows of one page, or says how many would be.
    async fn revive(&self, opened: &Opened, queue: Queue, page: &[Record], filter: Filter) -> Result<Count> {
        let revived = if self.dry_run {
            let now = opened.store().clock().now();
            let has_time = |record: &&Record| self.ttl.is_some() || record.expires_at().is_none_or(|at| at > now);
            page.iter().filter(has_time).count() as u64
        } else {
            opened.queue(queue).revive(filter, self.ttl).await?
        };
        Ok(Count { revived, still_expired: (page.len() as u64).saturating_sub(revived) })
    }
}

impl Count {
    fn add(&mut self, more: Self) {
        self.revived += more.revived;
        self.still_expired += more.still_expired;
    }
}
