//! `postroom redrive`: sends delivered messages again to a service that was restored from a backup.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::clock::{Clock, Timestamp};
use postroom::operator::Filter;
use postroom::queue::{Queue, State, WorkQueue};

use super::signed::Signed;
use super::{Global, confirm};
use crate::problem::Problem;
use crate::{duration, open, output};

/// The number of rows in one transaction.
const PAGE: usize = 5000;
/// More messages than this need a confirmation.
const MANY: u64 = 1000;

/// Send delivered messages again to a service that was restored from a backup
///
/// Run this on the sender's database. Every message that was delivered to the service at --since or later is sent
/// again. The service recognises duplicates by their ids and does not handle them twice.
#[derive(Args)]
pub(crate) struct Redrive {
    /// The service that was restored
    #[arg(long, value_name = "SERVICE")]
    destination: String,

    /// Send messages that were delivered at this time or later. Write a time like 2026-02-14T12:00:00Z, a day like
    /// 2026-02-14 (from midnight UTC), or a duration like 2h for two hours ago. Use the time of the backup or earlier
    #[arg(long, value_name = "TIME or DUR", value_parser = parse_since)]
    since: Since,

    /// The new time to live of the messages
    #[arg(long, value_name = "DUR", default_value = "1d", value_parser = duration::parse_positive)]
    ttl: Duration,

    /// Change nothing; count the messages that would be sent
    #[arg(long)]
    dry_run: bool,

    /// Send without asking for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    signed: Signed,
}

#[derive(Clone, Copy)]
enum Since {
    At(Timestamp),
    Ago(Duration),
}

impl Redrive {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let outbox = opened.queue(Queue::Outbox);
        let since = match self.since {
            Since::At(at) => at,
            Since::Ago(ago) => opened.store().clock().now().minus(ago),
        };
        let rows = outbox.count_delivered(&self.destination, since).await?;
        let redriven = if self.dry_run || rows == 0 {
            rows
        } else {
            self.confirm(rows, since)?;
            let operator = self
                .signed
                .operator(&[("to", Some(&self.destination)), ("delivered since", Some(&since.to_string()))])?;
            self.send(&outbox.by(operator), since).await?
        };
        if global.json {
            return output::json(&serde_json::json!({
                "destination": self.destination, "since": since.to_string(), "redriven": redriven,
                "dry_run": self.dry_run,
            }));
        }
        let (count, would) = (output::count(redriven, "message"), if self.dry_run { "would be" } else { "will be" });
        output::line(format!("{count} to {} {would} sent again", self.destination))?;
        if rows == 0 {
            eprintln!("no message was delivered to {} since {since}", self.destination);
        } else if !self.dry_run {
            eprintln!("a worker sends them; `postroom top` shows the progress");
        }
        Ok(())
    }

    /// Asks the user on the terminal. Without a terminal, the command line must confirm with an option.
    fn confirm(&self, rows: u64, since: Timestamp) -> Result<()> {
        let is_attended = confirm::is_attended();
        if self.yes || (rows <= MANY && is_attended) {
            return Ok(());
        }
        let what = format!("{} to {} since {since}", output::count(rows, "message"), self.destination);
        if !is_attended {
            let what = format!("{what} would be sent again, and there is no terminal to ask for confirmation");
            bail!(Problem::new(what, "--yes to send them, or --dry-run to count them"));
        }
        if confirm::asked(&format!("{what} will be sent again"))? {
            return Ok(());
        }
        bail!(Problem::new(
            "nothing was sent",
            "--dry-run to count them, a later --since to send fewer, or --yes to send them all"
        ));
    }

    /// Works page by page in the order of the rows, so that a message delivered meanwhile is not sent a third time.
    async fn send(&self, outbox: &WorkQueue, since: Timestamp) -> Result<u64> {
        let (mut redriven, mut after) = (0, 0);
        loop {
            let last = outbox.delivered_up_to(&self.destination, since, after, PAGE).await?;
            let Some(last) = last else { return Ok(redriven) };
            let page = Filter::all().state(State::Done).party(&self.destination).finished_since(since);
            // Leaves room for messages delivered in between, so that they push no others out of the page.
            redriven += outbox.redrive(page.after(after).up_to(last).limit(2 * PAGE), Some(self.ttl)).await?;
            after = last;
        }
    }
}

const DAY_CHARS: usize = "2026-02-14".len();

fn parse_since(text: &str) -> Result<Since, String> {
    if text.contains('T') || text.contains('t') && text.contains(':') {
        let at: Timestamp = text.parse().map_err(|error: postroom::Error| error.to_string())?;
        return match at > Clock::Database.now() {
            true => Err("the time is in the future; write the time of the backup".into()),
            false => Ok(Since::At(at)),
        };
    }
    // A day starts at midnight UTC.
    if text.len() == DAY_CHARS && text.bytes().filter(|byte| *byte == b'-').count() == 2 {
        return parse_since(&format!("{text}T00:00:00Z"));
    }
    let moment = "a day like 2026-02-14, or a time like 2026-02-14T12:00:00Z";
    duration::parse(text).map(Since::Ago).map_err(|error| format!("{error}, {moment}"))
}
