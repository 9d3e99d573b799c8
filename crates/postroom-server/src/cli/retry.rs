//! `postroom retry`: requeues dead and expired messages.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use postroom::operator::Filter;
use postroom::queue::State;

use super::lookup::{self, Found};
use super::signed::Signed;
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::operator::{Count, Reviving};
use crate::problem::Problem;
use crate::{duration, open, output};

/// Requeue one dead or expired message, or all of them, as if they were new
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["id", "all"])))]
pub(crate) struct Retry {
    /// The id of the message; for the inbox also SOURCE/ID
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

    /// A new time to live. Expired messages need one
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    ttl: Option<Duration>,

    #[command(flatten)]
    signed: Signed,
}

impl Retry {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let (retried, expired) = match &self.id {
            Some(id) => (self.one(&opened, lookup::by_id(&opened, id).await?, id).await?, 0),
            None => {
                let count = self.all(&opened).await?;
                (count.revived, count.still_expired)
            }
        };
        if global.json {
            return output::json(&serde_json::json!({ "retried": retried, "still_expired": expired }));
        }
        output::line(format!("{} requeued", output::count(retried, "message")))?;
        if expired > 0 {
            eprintln!("{} stayed expired; --ttl 1h sets a new time to live", output::count(expired, "message"));
        }
        Ok(())
    }

    async fn one(&self, opened: &Opened, found: Vec<Found>, id: &str) -> Result<u64> {
        let mut retried = 0;
        for Found { queue, record } in &found {
            let operator = self.signed.operator(&[("message", Some(id))])?;
            retried += opened.queue(*queue).by(operator).revive(Filter::one(record.seq()), self.ttl).await?;
        }
        if retried > 0 {
            return Ok(retried);
        }
        let states: Vec<_> = found.iter().map(|found| output::state(found.record.state())).collect();
        let is_over = found.iter().any(|found| matches!(found.record.state(), State::Dead | State::Expired));
        let problem = if is_over {
            Problem::new(format!("{id} has expired"), "`--ttl 1h`, which sets a new time to live")
        } else {
            let what = format!("{id} is {}; only dead and expired messages can be requeued", states.join(" and "));
            let dismissed = format!("`postroom revive {id}`, which also requeues dismissed messages");
            let is_dismissed = found.iter().any(|found| found.record.state() == State::Dismissed);
            Problem::new(what, if is_dismissed { dismissed } else { format!("`postroom show {id}` for details") })
        };
        Err(problem.into())
    }

    async fn all(&self, opened: &Opened) -> Result<Count> {
        let filter = self.topic.iter().fold(Filter::all(), |filter, topic| filter.topic(topic));
        let operator = self.signed.operator(&[("topic", self.topic.as_deref())])?;
        let (store, mut count) = (opened.store(), Count::default());
        for queue in QueueArg::or_both(self.queue) {
            let reviving = Reviving {
                queue: &opened.queue(queue).by(operator.clone()),
                clock: store.clock(),
                revival: self.ttl.into(),
                dry_run: false,
                most: u64::MAX,
            };
            count.add(reviving.those(&filter, |_| true).await?);
        }
        Ok(count)
    }
}
