//! `postroom audit`: shows what operators did and why.

use anyhow::Result;
use clap::Args;
use postroom::operator::Audited;
use postroom::queue::Queue;
use serde_json::{Value, json};

use super::{Global, QueueArg};
use crate::{open, output};

/// Show the audit trail: who changed messages by hand, how many, and why; newest first
///
/// Every retry, revive, redrive, dismiss, cancel, expire, purge, pause, resume and limit is recorded in the transaction
/// of the change, whether it came from the command line, the admin page or the HTTP API. For the page and the API, the
/// name is that of the token.
#[derive(Args)]
pub(crate) struct Audit {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueArg>,

    /// Show at most this many entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl Audit {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let opened = open::existing(&global.database()?).await?;
        let limit = usize::try_from(self.limit)?;
        let mut entries = Vec::new();
        for queue in QueueArg::or_both(self.queue) {
            entries.extend(opened.queue(queue).audit(limit).await?.into_iter().map(|entry| (queue, entry)));
        }
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at()));
        entries.truncate(limit);
        if global.json {
            return output::json(&entries.iter().map(told).collect::<Vec<_>>());
        }
        for (queue, entry) in &entries {
            output::line(line(*queue, entry))?;
        }
        if entries.is_empty() {
            eprintln!("the audit trail is empty: nobody has changed messages by hand");
        }
        Ok(())
    }
}

fn told((queue, entry): &(Queue, Audited)) -> Value {
    json!({
        "at": entry.at().to_string(), "who": entry.who(), "act": entry.act().as_str(), "queue": queue.as_str(),
        "messages": entry.messages(), "chosen": entry.chosen(), "why": entry.why(),
    })
}

fn line(queue: Queue, entry: &Audited) -> String {
    let (at, who) = (output::moment(entry.at()), output::one_line(entry.who()));
    let what = match entry.messages() {
        // A pause or a limit: what was chosen says what it is about.
        0 => output::one_line(entry.chosen().unwrap_or("the queue")),
        messages => output::count(messages, "message"),
    };
    let chosen = entry.chosen().filter(|_| entry.messages() > 0);
    let chosen = chosen.map_or_else(String::new, |chosen| format!(" ({})", output::one_line(chosen)));
    let why = entry.why().map_or_else(String::new, |why| format!(": {}", output::one_line(why)));
    format!("{at}  {who}  {} {what} of the {queue}{chosen}{why}", entry.act().as_str())
}
