//! `postroom retry`: dead and expired messages back in line.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use postroom::{Filter, State, WorkQueue};

use super::lookup::{self, Found};
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::problem::Problem;
use crate::{duration, open, output};

/// So many rows in one transaction.
const PAGE: usize = 1000;

/// Put dead and expired messages back in line, as if they were new
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["id", "all"])))]
pub(crate) struct Retry {
    /// The message: its id, for the inbox also SOURCE/ID
    id: Option<String>,

    /// Every dead and expired message
    #[arg(long)]
    all: bool,

    /// With --all: only this topic
    #[arg(long, conflicts_with = "id")]
    topic: Option<String>,

    /// With --all: only this queue
    #[arg(long, conflicts_with = "id")]
    queue: Option<QueueArg>,

    /// A new time to live; expired messages need one
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    ttl: Option<Duration>,
}

impl Retry {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let (retried, expired) = match &self.id {
            Some(id) => (self.one(&opened, lookup::by_id(&opened, &database, id).await?, id).await?, 0),
            None => self.all(&opened).await?,
        };
        if global.json {
            return output::json(&serde_json::json!({ "retried": retried, "still_expired": expired }));
        }
        output::line(format!("{} back in line", output::count(retried, "message")))?;
        if expired > 0 {
            eprintln!("{} stayed expired; --ttl 1h gives a new time to live", output::count(expired, "message"));
        }
        Ok(())
    }

    async fn one(&self, opened: &Opened, found: Vec<Found>, id: &str) -> Result<u64> {
        let mut retried = 0;
        for Found { queue, record } in &found {
            retried += opened.queue(*queue).revive(Filter::one(record.seq()), self.ttl).await?;
        }
        if retried > 0 {
            return Ok(retried);
        }
        let states: Vec<_> = found.iter().map(|found| output::state(found.record.state())).collect();
        let is_over = found.iter().any(|found| matches!(found.record.state(), State::Dead | State::Expired));
        let problem = if is_over {
            Problem::new(format!("the time to live of {id} is over"), "`--ttl 1h`, which gives it a new time to live")
        } else {
            let what = format!("{id} is {}; only dead and expired messages are put back", states.join(" and "));
            Problem::new(what, format!("`postroom show {id}` for its story"))
        };
        Err(problem.into())
    }

    /// How many are back in line, and how many stay expired for want of a new time to live.
    async fn all(&self, opened: &Opened) -> Result<(u64, u64)> {
        let (mut retried, mut expired) = (0, 0);
        for queue in QueueArg::or_both(self.queue) {
            for state in [State::Dead, State::Expired] {
                let mut filter = Filter::all().state(state).limit(PAGE);
                if let Some(topic) = &self.topic {
                    filter = filter.topic(topic);
                }
                let (back, stayed) = pages(&opened.queue(queue), filter, self.ttl).await?;
                (retried, expired) = (retried + back, expired + stayed);
            }
        }
        Ok((retried, expired))
    }
}

/// Page by page: rows that cannot go back must not hide those behind them.
async fn pages(queue: &WorkQueue, filter: Filter, ttl: Option<Duration>) -> Result<(u64, u64)> {
    let (mut retried, mut stayed, mut after) = (0, 0, 0);
    loop {
        let page = queue.list(filter.clone().after(after)).await?;
        let Some(last) = page.last() else { return Ok((retried, stayed)) };
        let back = queue.revive(filter.clone().after(after), ttl).await?;
        retried += back;
        stayed += u64::try_from(page.len())?.saturating_sub(back);
        after = last.seq();
    }
}
