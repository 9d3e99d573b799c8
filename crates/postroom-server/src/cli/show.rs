//! `postroom show`: shows one message.

use anyhow::Result;
use clap::Args;
use postroom::Message;
use postroom::clock::{Clock, Timestamp};
use postroom::message::{Origin, OwnerToken};
use postroom::operator::{Failure, Operator, Record};
use postroom::queue::{Queue, State, Whose};
use serde_json::{Value, json};

use super::Global;
use super::lookup::{self, Found};
use crate::{open, output};

/// Show one message: its state, times, attempts and errors
#[derive(Args)]
pub(crate) struct Show {
    /// The id of the message; for the inbox also SOURCE/ID
    id: String,

    /// Print the payload, headers and response too. They may contain secrets
    #[arg(long)]
    show_payload: bool,
}

/// A message and everything known about it.
struct Story {
    queue: Queue,
    record: Record,
    failures: Vec<Failure>,
    open: bool,
}

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let mut stories = Vec::new();
        for Found { queue, record } in lookup::by_id(&opened, &self.id).await? {
            let failures = opened.queue(queue).failures(record.seq()).await?;
            stories.push(Story { queue, record, failures, open: self.show_payload });
        }
        if global.json {
            return output::json(&stories.iter().map(Story::json).collect::<Vec<_>>());
        }
        for (index, story) in stories.iter().enumerate() {
            if index > 0 {
                output::line("")?;
            }
            story.print()?;
        }
        Ok(())
    }
}

impl Story {
    fn message(&self) -> Option<&Message> {
        self.record.message().ok()
    }

    fn json(&self) -> Value {
        let record = &self.record;
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let worker = |worker: Option<OwnerToken>| worker.map(|worker| worker.to_string());
        let failures = self.failures.iter().map(|failure| {
            json!({ "at": failure.at.to_string(), "attempt": failure.attempt, "worker": worker(failure.worker),
                    "error": failure.error, "code": failure.cause.map(postroom::queue::Cause::code),
                    "whose": failure.cause.map(|cause| cause.whose().as_str()) })
        });
        let mut story = json!({
            "queue": self.queue.as_str(),
            "row": record.seq(),
            "state": output::state(record.state()),
            "attempts": record.attempts(),
            "crashes": record.crashes(),
            "claims": record.claim_no(),
            "visible_at": time(record.visible_at()),
            "next_attempt_at": time(record.next_attempt_at()),
            "locked_until": time(record.locked_until()),
            "owner": worker(record.owner()),
            "last_attempt_at": time(record.last_attempt_at()),
            "processed_at": time(record.processed_at()),
            "processed_by": worker(record.processed_by()),
            "expires_at": time(record.expires_at()),
            "last_error": record.last_error(),
            "has_response": record.response().is_some(),
            "dismissed_by": record.dismissal().map(Operator::who),
            "dismissed_why": record.dismissal().and_then(Operator::why),
            "failures": failures.collect::<Vec<_>>(),
        });
        match record.message() {
            Ok(message) => describe(message, self.open, &mut story),
            Err(why) => story["unreadable"] = json!(why),
        }
        if self.open {
            story["response"] = json!(record.response());
        }
        story
    }

    fn print(&self) -> Result<()> {
        let record = &self.record;
        let (id, topic) = match record.message() {
            Ok(message) => (lookup::id_of(message), message.topic.as_str()),
            Err(why) => (format!("row {}", record.seq()), why),
        };
        output::line(format!("{} {}  {}", self.queue, output::one_line(&id), output::one_line(topic)))?;
        for (name, value) in self.facts() {
            output::line(format!("  {name:<15}{}", output::one_line(&value)))?;
        }
        if !self.failures.is_empty() {
            output::line("  failures")?;
        }
        for failure in &self.failures {
            let error = output::one_line(failure.error.as_deref().unwrap_or("no error was recorded"));
            let code = failure.cause.map_or("", postroom::queue::Cause::code);
            let is_counted = failure.cause.is_none_or(|cause| cause.whose() == Whose::Message);
            let attempt = if is_counted { format!("attempt {}", failure.attempt) } else { "not counted".to_owned() };
            output::line(format!("    {}  {attempt}  {code}  {error}", failure.at))?;
        }
        Ok(())
    }

    /// The known facts, in the order in which they happened.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let (record, message) = (&self.record, self.message());
        let time = |at: Option<Timestamp>| at.map(output::moment);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let facts = [
            ("state", Some(self.standing())),
            ("kind", message.map(|message| message.kind.to_string())),
            ("to", owned(message.and_then(Message::destination))),
            ("correlation id", message.and_then(|message| message.correlation_id.clone())),
            ("lane", message.and_then(|message| message.lane.clone())),
            ("created", time(message.map(|message| message.created_at))),
            ("due", time(message.and_then(|message| message.due_at))),
            ("expires", time(record.expires_at())),
            ("last claimed", time(record.last_attempt_at())),
            ("finished", time(record.processed_at())),
            ("dismissed by", owned(record.dismissal().map(Operator::who))),
            ("why", owned(record.dismissal().and_then(Operator::why))),
            ("attempts", Some(self.attempts())),
            ("last error", owned(record.last_error())),
            ("headers", message.filter(|message| !message.headers.is_empty()).map(|message| self.headers(message))),
            ("payload", message.map(|message| self.payload(message))),
            ("response", record.response().map(|response| self.text(response))),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn id(&self) -> String {
        self.message().map(lookup::id_of).unwrap_or_default()
    }

    fn standing(&self) -> String {
        let record = &self.record;
        let state = output::state(record.state());
        let at = record.visible_at().map(output::moment).unwrap_or_default();
        match record.state() {
            State::Ready if record.visible_at() <= Some(Clock::Database.now()) => {
                format!("{state}: has waited for a worker since {at}")
            }
            State::Ready => format!("{state}: due at {at}"),
            State::Leased => format!("{state}: a worker holds it until {at}"),
            State::Dead => format!("{state}: `postroom retry {}` requeues it", self.id()),
            State::Expired => format!("{state}: `postroom revive {} --ttl 1h` requeues it", self.id()),
            State::Dismissed => format!("{state}: `postroom revive {}` requeues it", self.id()),
            _ => state,
        }
    }

    fn attempts(&self) -> String {
        let failed = self.record.attempts();
        let limit = self.message().and_then(|message| message.max_attempts);
        let limit = limit.map_or_else(String::new, |limit| format!(" of {limit}"));
        let claims = u64::try_from(self.record.claim_no()).unwrap_or(0);
        let vanished = match self.record.crashes() {
            0 => String::new(),
            crashes => format!(", its worker died {}", output::count(u64::from(crashes), "time")),
        };
        format!("{failed} failed{limit}, claimed {}{vanished}", output::count(claims, "time"))
    }

    fn headers(&self, message: &Message) -> String {
        let told = message.headers.iter().map(|(name, value)| match self.open {
            true => format!("{name}={value}"),
            false => name.clone(),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    fn payload(&self, message: &Message) -> String {
        if message.payload_dropped { output::PAYLOAD_DROPPED.to_owned() } else { self.text(&message.payload) }
    }

    fn text(&self, text: &str) -> String {
        if self.open { text.to_owned() } else { output::count(text.len() as u64, "byte") }
    }
}

fn describe(message: &Message, open: bool, story: &mut Value) {
    story["id"] = json!(message.id());
    if let Origin::Outbox { id, .. } = &message.origin {
        story["work_item_id"] = json!(id.to_string());
    }
    story["source"] = json!(message.source());
    story["destination"] = json!(message.destination());
    story["kind"] = json!(message.kind.as_str());
    story["topic"] = json!(message.topic);
    story["correlation_id"] = json!(message.correlation_id);
    story["lane"] = json!(message.lane);
    story["created_at"] = json!(message.created_at.to_string());
    story["due_at"] = json!(message.due_at.map(|due| due.to_string()));
    story["max_attempts"] = json!(message.max_attempts);
    story["payload_bytes"] = json!(message.payload.len());
    story["payload_dropped"] = json!(message.payload_dropped);
    story["header_names"] = json!(message.headers.keys().collect::<Vec<_>>());
    if open {
        story["payload"] = json!(message.payload);
        story["headers"] = json!(message.headers);
    }
}
