//! `postroom dismiss`: dismisses selected dead letters, with a dry run.

use anyhow::{Result, bail};
use clap::Args;
use postroom::operator::{Filter, Operator};
use postroom::queue::{Queue, State, WorkQueue};

use super::lookup::{self, Found};
use super::signed::{user, words};
use super::{Global, QueueArg};
use crate::open::Opened;
use crate::operator::{Dismissed, Dismissing};
use crate::problem::Problem;
use crate::{open, output};

/// Dismiss dead and expired messages that nobody needs any more: one, some or all of them
///
/// Dismissed messages no longer count as failed. They are kept for 30 days by default, with who dismissed them and why,
/// and are then deleted; until then the inbox recognises their duplicates. If you dismiss a message by mistake,
/// `postroom revive ID` requeues it. With --dry-run, nothing changes and the messages are only counted.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)
          .args(["id", "all", "topic", "destination", "source"])))]
pub(crate) struct Dismiss {
    /// The id of the message; for the inbox also SOURCE/ID
    #[arg(conflicts_with_all = ["all", "topic", "destination", "source", "queue", "limit"])]
    id: Option<String>,

    /// Every dead and expired message
    #[arg(long)]
    all: bool,

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

    /// Dismiss at most this many messages, oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// The reason. It is stored with each message
    #[arg(long, value_name = "REASON", required_unless_present = "dry_run")]
    why: Option<String>,

    /// Your name. It is stored with each message; the default is the user of this machine
    #[arg(long, value_name = "NAME")]
    by: Option<String>,

    /// Change nothing; count the messages that would be dismissed
    #[arg(long)]
    dry_run: bool,
}

impl Dismiss {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let queues = QueueArg::with_parties(self.queue, self.destination.as_deref(), self.source.as_deref())?;
        let dismissal = self.dismissal()?;
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let count = match &self.id {
            Some(id) => self.one(&opened, lookup::by_id(&opened, id).await?, id, dismissal).await?,
            None => self.many(&opened, &queues, dismissal).await?,
        };
        if global.json {
            return output::json(&serde_json::json!({ "dismissed": count.dismissed, "dry_run": self.dry_run }));
        }
        let would = if self.dry_run { "would be " } else { "" };
        output::line(format!("{} {would}dismissed", output::count(count.dismissed, "message")))?;
        if count.changed > 0 {
            let messages = output::count(count.changed, "message");
            eprintln!("skipped {messages} that changed in the meantime");
        }
        Ok(())
    }

    /// Returns `None` in a dry run.
    fn dismissal(&self) -> Result<Option<Operator>> {
        let Some(why) = self.why.as_deref().filter(|_| !self.dry_run) else { return Ok(None) };
        let by =
            self.by.clone().or_else(user).ok_or_else(|| {
                Problem::new("your name is unknown", "`--by NAME`, which is stored with each message")
            })?;
        Ok(Some(Operator::new(by)?.because(why)?))
    }

    /// Returns the queue on behalf of the operator who dismisses messages.
    fn signed(&self, queue: WorkQueue, dismissal: Option<&Operator>) -> Result<WorkQueue> {
        let Some(dismissal) = dismissal else { return Ok(queue) };
        let chosen = words(&[
            ("message", self.id.as_deref()),
            ("topic", self.topic.as_deref()),
            ("destination", self.destination.as_deref()),
            ("source", self.source.as_deref()),
        ]);
        Ok(queue.by(dismissal.clone().chose(chosen)?))
    }

    async fn one(
        &self,
        opened: &Opened,
        found: Vec<Found>,
        id: &str,
        dismissal: Option<Operator>,
    ) -> Result<Dismissed> {
        let mut count = Dismissed::default();
        for Found { queue, record } in &found {
            let dismissing = Dismissing {
                queue: &self.signed(opened.queue(*queue), dismissal.as_ref())?,
                dismissal: dismissal.clone(),
                most: 1,
            };
            count.add(dismissing.those(&Filter::one(record.seq()), |_| true).await?);
        }
        if count.dismissed > 0 {
            return Ok(count);
        }
        let states: Vec<_> = found.iter().map(|found| output::state(found.record.state())).collect();
        let what = format!("{id} is {}; only dead and expired messages can be dismissed", states.join(" and "));
        bail!(Problem::new(what, format!("`postroom explain {id}`, which explains its state")));
    }

    async fn many(&self, opened: &Opened, queues: &[Queue], dismissal: Option<Operator>) -> Result<Dismissed> {
        let mut count = Dismissed::default();
        for queue in queues {
            for state in [State::Dead, State::Expired] {
                let most = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(count.dismissed));
                let dismissing = Dismissing {
                    queue: &self.signed(opened.queue(*queue), dismissal.as_ref())?,
                    dismissal: dismissal.clone(),
                    most,
                };
                count.add(dismissing.those(&self.filter(state), |_| true).await?);
            }
        }
        Ok(count)
    }

    fn filter(&self, state: State) -> Filter {
        let filter = self.topic.iter().fold(Filter::all().state(state), |filter, topic| filter.topic(topic));
        self.destination.iter().chain(&self.source).fold(filter, |filter, party| filter.party(party))
    }
}
