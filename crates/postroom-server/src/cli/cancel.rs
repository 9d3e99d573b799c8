//! `postroom cancel`: cancels messages that wait or are in progress, by their ids, by their lane or by a unique key.

use anyhow::{Result, bail};
use clap::Args;
use postroom::queue::{Cancelled, Queue};
use serde_json::json;

use super::lookup::{self, Found};
use super::signed::Signed;
use super::{Global, QueueArg, confirm};
use crate::open::Opened;
use crate::problem::Problem;
use crate::{open, output};

/// Cancel messages that nobody needs any more: some of them, or all of a lane
///
/// A message that waits is dismissed: nobody gets it. One in progress is asked to stop: its handler is told within
/// about a second. If it succeeds all the same, it is done; if it fails, it is dismissed and not tried again. Cancelled
/// messages are kept like dismissed ones; `postroom revive ID` requeues one.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "lane", "unique_key"])))]
pub(crate) struct Cancel {
    /// The ids of the messages; for the inbox also SOURCE/ID
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Every message of this lane that waits or is in progress. In the inbox, a lane is SOURCE/LANE
    #[arg(long)]
    lane: Option<String>,

    /// The message of the outbox that has this unique key, or had it last
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,

    /// With --lane: only in this queue
    #[arg(long, requires = "lane")]
    queue: Option<QueueArg>,

    /// With --lane: cancel without asking for confirmation
    #[arg(long, short, requires = "lane")]
    yes: bool,

    #[command(flatten)]
    signed: Signed,
}

/// How many messages were cancelled.
#[derive(Default)]
struct Count {
    waiting: u64,
    asked: u64,
    /// What the others are.
    too_late: Vec<String>,
}

impl Cancel {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let count = match (&self.lane, &self.unique_key) {
            (Some(lane), _) => self.lane(&opened, lane).await?,
            (None, Some(key)) => self.with_key(&opened, key).await?,
            (None, None) => self.those(&opened).await?,
        };
        if global.json {
            let too_late = count.too_late.len();
            return output::json(
                &json!({ "cancelled": count.waiting, "asked_to_stop": count.asked, "too_late": too_late }),
            );
        }
        output::line(format!("{} cancelled", output::count(count.waiting, "message")))?;
        if count.asked > 0 {
            output::line(format!("{} in progress asked to stop", output::count(count.asked, "message")))?;
        }
        count.too_late.iter().for_each(|told| eprintln!("{told}"));
        Ok(())
    }

    async fn lane(&self, opened: &Opened, lane: &str) -> Result<Count> {
        let shown = output::one_line(lane);
        if !self.yes && !confirm::is_attended() {
            let what = format!("the lane {shown} would be cancelled, and there is no terminal to ask for confirmation");
            bail!(Problem::new(what, "--yes to cancel it"));
        }
        if !self.yes && !confirm::asked(&format!("every message of the lane {shown} will be cancelled"))? {
            bail!(Problem::new("nothing was cancelled", "--yes to cancel the lane"));
        }
        let (operator, mut count) = (self.signed.operator(&[("lane", Some(lane))])?, Count::default());
        for queue in QueueArg::or_both(self.queue) {
            let cancelled = opened.queue(queue).by(operator.clone()).cancel_lane(lane).await?;
            count.waiting += cancelled.waiting;
            count.asked += cancelled.asked;
        }
        Ok(count)
    }

    /// Looks for all of them first, so that a wrong id changes nothing.
    async fn those(&self, opened: &Opened) -> Result<Count> {
        let mut found = Vec::new();
        for id in &self.ids {
            found.extend(lookup::by_id(opened, id).await?.into_iter().map(|row| (id, row)));
        }
        let listed = self.ids.join(" ");
        let operator = self.signed.operator(&[("message", Some(listed.as_str()))])?;
        let queues = [Queue::Outbox, Queue::Inbox].map(|queue| opened.queue(queue).by(operator.clone()));
        let mut count = Count::default();
        for (id, Found { queue, record }) in &found {
            let queue = &queues[usize::from(*queue == Queue::Inbox)];
            match queue.cancel(record.seq()).await? {
                Cancelled::Waiting => count.waiting += 1,
                Cancelled::Asked => count.asked += 1,
                _ => {
                    let state = output::state(record.state());
                    count.too_late.push(format!("too late: {} is {state}", output::one_line(id)));
                }
            }
        }
        count.checked()
    }

    async fn with_key(&self, opened: &Opened, key: &str) -> Result<Count> {
        let operator = self.signed.operator(&[("unique key", Some(key))])?;
        let (shown, mut count) = (output::one_line(key), Count::default());
        match opened.queue(Queue::Outbox).by(operator).cancel_key(key).await? {
            Cancelled::Waiting => count.waiting += 1,
            Cancelled::Asked => count.asked += 1,
            Cancelled::TooLate => {
                count.too_late.push(format!("too late: the message with the key {shown} is finished"));
            }
            _ => {
                let advice = "check the key: a message has it only while it waits, until it is done, or for a time";
                bail!(Problem::new(format!("no message has the unique key {shown}"), advice));
            }
        }
        count.checked()
    }
}

impl Count {
    /// Fails if nothing was cancelled.
    fn checked(self) -> Result<Self> {
        if self.waiting + self.asked == 0 {
            let advice = "`postroom show ID` for details; only what waits or is in progress can be cancelled";
            bail!(Problem::new(self.too_late.join("; "), advice));
        }
        Ok(self)
    }
}
