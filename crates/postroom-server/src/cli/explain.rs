//! `postroom explain`: explains why a message is not delivered or handled.

mod answer;
mod judge;
mod trouble;

use anyhow::{Result, bail};
use clap::Args;
use postroom::clock::{Clock, Timestamp};
use postroom::operator::{Record, Rule};
use postroom::queue::{Place, Queue};
use serde_json::{Value, json};

use self::answer::Answer;
use self::judge::{Around, CLOCK_TOLERANCE, LINE_MAX, Seen};
use super::Global;
use super::lanes;
use super::lookup::{self, Found};
use crate::open::Opened;
use crate::problem::{self, Problem};
use crate::{config, open, output};

/// Explain why a message is not delivered or handled: what holds it up, what happens next, and what to do
///
/// The exit code is 0 if there is an answer, 3 if no message has this id, and 5 if the tables are missing or have
/// another version.
#[derive(Args)]
pub(crate) struct Explain {
    /// The id of the message; for the inbox also SOURCE/ID
    id: String,
}

impl Explain {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = match open::existing(&database).await {
            Err(error) if problem::is_about_schema(&error) => return self.other_schema(&error, global.json),
            opened => opened?,
        };
        let found = match lookup::by_id(&opened, &self.id).await {
            Err(error) => return self.unknown(error, global.json),
            Ok(found) => found,
        };
        // The configuration may belong to another machine. Without it, it is unknown which topics are fetched.
        let fetched = config::load(global.config()).ok().and_then(|config| config.fetched().ok().flatten());
        for (index, Found { queue, record }) in found.iter().enumerate() {
            let around = around(&opened, *queue, record).await?;
            let id = record.message().map_or_else(|_| self.id.clone(), lookup::id_of);
            let verbs = opened.queue(*queue);
            let last = verbs.failures(record.seq()).await?.pop().and_then(|failure| failure.cause);
            let place = record.message().ok().map(Place::of);
            let hold = verbs.holds().await?.into_iter().find(|hold| Some(&hold.place) == place.as_ref());
            let is_fetched = record.message().is_ok_and(|message| {
                fetched.as_ref().is_some_and(|topics| topics.contains(&message.topic, message.destination()))
            });
            let is_meant = |rule: &Rule| record.message().is_ok_and(|message| rule.scope.covers(message));
            let rule = verbs.rules().await?.into_iter().filter(is_meant).max_by_key(|rule| rule.paused.is_some());
            let lane = verbs.lane_of(record.seq()).await?;
            let seen = Seen { is_fetched, rule, lane, ..Seen::of(*queue, id, record).with(last, hold) };
            let answer = judge::judge(&seen, &around);
            if global.json {
                let lane = seen.lane.as_ref().map(|place| lanes::place(*queue, place));
                output::json(&told(*queue, record, &answer, &around, lane))?;
                continue;
            }
            if index > 0 {
                output::line("")?;
            }
            print(*queue, record, &answer, &around)?;
        }
        Ok(())
    }

    /// Reports that no message has that id. With --json the answer is JSON too.
    fn unknown(&self, error: anyhow::Error, json: bool) -> Result<()> {
        let nothing = error.downcast_ref::<Problem>().filter(|problem| problem.is_nothing_found());
        if let Some(problem) = nothing.filter(|_| json) {
            output::json(&json!({
                "id": self.id, "cause": "unknown-id", "is": problem.to_string(), "since": null,
                "next": "Nothing happens: there is no such message.", "next_at": null, "advice": problem.advice(),
            }))?;
        }
        Err(error)
    }

    fn other_schema(&self, error: &anyhow::Error, json: bool) -> Result<()> {
        let (is, advice) =
            (problem::told(error), "`postroom migrate`, or a newer version of postroom; `postroom doctor` shows more");
        if json {
            output::json(&json!({
                "id": self.id, "cause": "schema", "is": is, "since": null,
                "next": "Nothing happens: no program can open the store.", "next_at": null, "advice": advice,
            }))?;
        }
        bail!(Problem::other_schema(is, advice));
    }
}

/// What goes on in the queue around the message.
async fn around(opened: &Opened, queue: Queue, record: &Record) -> Result<Around> {
    let verbs = opened.queue(queue);
    let (now, ours) = (opened.store().clock().now(), Clock::Database.now());
    let activity = verbs.activity().await?;
    let ahead = match record.visible_at() {
        None => 0,
        Some(at) => verbs.ahead_of(at, record.seq(), usize::try_from(LINE_MAX + 1)?).await?,
    };
    Ok(Around {
        now,
        ours,
        ahead,
        held: activity.held,
        active_at: activity.at(),
        maintained_at: activity.maintained_at,
    })
}

fn told(queue: Queue, record: &Record, answer: &Answer, around: &Around, lane: Option<Value>) -> Value {
    let message = record.message().ok();
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "id": message.map(postroom::Message::id),
        "queue": queue.as_str(),
        "row": record.seq(),
        "topic": message.map(|message| &message.topic),
        "source": message.and_then(|message| message.source()),
        "destination": message.and_then(|message| message.destination()),
        "state": output::state(record.state()),
        "cause": answer.cause,
        "is": answer.is,
        "since": time(answer.since),
        "next": answer.next,
        "next_at": time(answer.next_at),
        "advice": answer.advice,
        "error": record.last_error(),
        "attempts": record.attempts(),
        "crashes": record.crashes(),
        "ahead": around.ahead,
        "lane": lane,
        "clock_ahead_seconds": around.clock_ahead() / 1_000_000,
    })
}

fn print(queue: Queue, record: &Record, answer: &Answer, around: &Around) -> Result<()> {
    let (id, topic) = match record.message() {
        Ok(message) => (lookup::id_of(message), message.topic.as_str()),
        Err(_) => (format!("row {}", record.seq()), "unreadable"),
    };
    output::line(format!("{queue} {}  {}", output::one_line(&id), output::one_line(topic)))?;
    output::line(format!("  cause  {}", answer.cause))?;
    output::line(format!("  now    {}", output::one_line(&answer.is)))?;
    output::line(format!("  next   {}", output::one_line(&answer.next)))?;
    output::line(format!("  do     {}", output::one_line(&answer.advice)))?;
    let ahead = around.clock_ahead();
    if ahead.abs() > CLOCK_TOLERANCE {
        let way = if ahead < 0 { "behind" } else { "ahead of" };
        eprintln!(
            "the clock of the database is {} s {way} this machine's; due times and leases follow the database's clock",
            ahead.abs() / 1_000_000
        );
    }
    Ok(())
}
