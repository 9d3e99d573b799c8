//! `postroom purge`: deletes old done messages.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::queue::Queue;

use super::signed::Signed;
use super::{Global, QueueArg};
use crate::operator::Ending;
use crate::problem::Problem;
use crate::{config, duration, open, output};

/// Delete old done messages; messages in other states stay
///
/// A worker does this automatically: by default after 7 days in the outbox and 30 days in the inbox. [retention] in the
/// configuration sets how long messages of each state are kept.
#[derive(Args)]
pub(crate) struct Purge {
    /// Delete messages that were done longer ago than this
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    older_than: Duration,

    /// The queue. The inbox cannot recognise a duplicate of a deleted message, so keep its messages for longer than any
    /// sender retries
    #[arg(long, default_value = "outbox")]
    queue: QueueArg,

    /// Also delete messages that the receiver still accepts. Their duplicates would be handled again
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
                let (given, least) = (duration::short(self.older_than), duration::at_least(taken_for));
                let what = format!("after {given} a duplicate may still arrive, and it would be handled again");
                bail!(Problem::new(what, format!("`--older-than {least}`, or `--force` if no sender is left")));
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
