//! `postroom purge`: done messages past their use.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::Queue;

use super::signed::Signed;
use super::{Global, QueueArg};
use crate::operator::Ending;
use crate::problem::Problem;
use crate::{config, duration, open, output};

/// Delete messages that were done long ago; messages in other states stay
///
/// A worker does this by itself: after 7 days in the outbox, after 30 days in the inbox. How long messages in other
/// states are kept is said in [retention] of the configuration.
#[derive(Args)]
pub(crate) struct Purge {
    /// Done longer ago than this
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    older_than: Duration,

    /// Which queue. What the inbox has forgotten it handles again when it is sent again: keep it for longer than any
    /// sender retries
    #[arg(long, default_value = "outbox")]
    queue: QueueArg,

    /// Also what the receiver of the configuration would still take: sent again, it is handled again
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    signed: Signed,
}

impl Purge {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if matches!(self.queue, QueueArg::Inbox) && !self.force {
            let taken_for = config::load(global.config())?.taken_for();
            if self.older_than < taken_for {
                let (given, least) = (duration::short(self.older_than), duration::short(taken_for));
                let what = format!("after {given} a message may still be sent again, and it would be handled again");
                bail!(Problem::new(what, format!("`--older-than {least}`, or `--force` if nobody sends any more")));
            }
        }
        let opened = open::existing(&global.database()?).await?;
        let kind = match self.queue {
            QueueArg::Outbox => Queue::Outbox,
            QueueArg::Inbox => Queue::Inbox,
        };
        let older_than = duration::short(self.older_than);
        let queue = opened.queue(kind).by(self.signed.operator(&[("done for longer than", Some(&older_than))])?);
        let purged = Ending::Purge(self.older_than).all(&queue).await?;
        if global.json {
            return output::json(&serde_json::json!({ "queue": kind.as_str(), "purged": purged }));
        }
        output::line(format!("{} deleted from the {kind}", output::count(purged, "done message")))
    }
}
