//! `postroom send`: enqueues a message.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use postroom::message::{Kind, Unique, WorkItemId};
use postroom::queue::Stored;
use postroom::{MessageId, NewMessage, Outbox};
use serde_json::json;

use super::Global;
use crate::problem::Problem;
use crate::{duration, open, output};

/// The number of messages in one transaction.
const CHUNK: u64 = 1000;

/// Enqueue a message in the outbox, and print its id once the message is committed
#[derive(Args)]
pub(crate) struct Send {
    /// The topic, which selects the handler, like order.placed
    topic: String,

    /// The content, as text. `-` reads it from stdin; without it the payload is empty
    payload: Option<String>,

    /// The service to send it to. Without this option the message is handled here
    #[arg(long, value_name = "DEST")]
    to: Option<String>,

    /// The kind of message. An event without a destination is handled here; commands and signals go to another service
    #[arg(long, value_name = "KIND", default_value = "Event", value_parser = kinds())]
    kind: Kind,

    /// An id that links the message to what caused it
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,

    /// The lane of the message. Messages of one lane are handled or sent in order, one after the other
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,

    /// A key that at most one message has at a time: while it waits. If another message has it, nothing is stored
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,

    /// With --unique-key: the message has the key until it is done, or dead
    #[arg(long, requires = "unique_key")]
    until_done: bool,

    /// With --unique-key: the message has the key for this long, whatever becomes of it
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive, requires = "unique_key",
          conflicts_with = "until_done")]
    unique_for: Option<Duration>,

    /// With --unique-key: what to do if another message has the key. `replace` dismisses one that waits
    #[arg(long, value_name = "WHAT", default_value = "keep", requires = "unique_key")]
    if_taken: IfTaken,

    /// How long from now the message is due
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    due_in: Option<Duration>,

    /// Let the message go ahead of others, as if it had been due this long ago; at most 24h
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive, conflicts_with = "due_in")]
    head_start: Option<Duration>,

    /// How long from now the message expires
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    expires_in: Option<Duration>,

    /// Make the message dead after this many failed attempts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,

    /// The id of the message. A second message with the same id is a duplicate and is not stored
    #[arg(long, value_name = "UUID", value_parser = parse_id)]
    id: Option<MessageId>,

    /// A header of the message. Repeat this option for more
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,

    /// Enqueue this many messages, each with its own id
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "id",
          value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// What happens if another message has the unique key.
#[derive(Clone, Copy, clap::ValueEnum)]
enum IfTaken {
    Keep,
    Replace,
    Refuse,
}

impl Send {
    pub(crate) async fn run(mut self, global: &Global) -> Result<()> {
        // Read stdin before the database is opened: a pipe that never ends must not leave an empty database behind.
        let payload = match self.payload.take() {
            Some(dash) if dash == "-" => read_stdin()?,
            payload => payload.unwrap_or_default(),
        };
        let outbox = Outbox::of(open::or_create(&global.database()?).await?.store());
        let mut left = self.count;
        while left > 0 {
            let messages: Vec<_> = (0..left.min(CHUNK)).map(|_| self.message(&payload)).collect();
            left -= left.min(CHUNK);
            let ids: Vec<_> = messages.iter().map(|message| (message.message_id(), message.work_item_id())).collect();
            let stored = outbox.enqueue_many(messages).await?;
            for (ids, stored) in ids.into_iter().zip(stored) {
                print(ids, &stored, global.json)?;
            }
        }
        Ok(())
    }

    fn unique(&self) -> Option<Unique> {
        let key = self.unique_key.as_deref()?;
        let unique = match self.unique_for {
            Some(time) => Unique::within(key, time),
            None if self.until_done => Unique::until_done(key),
            None => Unique::while_waiting(key),
        };
        Some(match self.if_taken {
            IfTaken::Keep => unique,
            IfTaken::Replace => unique.or_replace(),
            IfTaken::Refuse => unique.or_refuse(),
        })
    }

    fn message(&self, payload: &str) -> NewMessage {
        let mut message = NewMessage::new(&self.topic, payload).kind(self.kind);
        if let Some(id) = self.id {
            message = message.id(id);
        }
        if let Some(destination) = &self.to {
            message = message.to(destination);
        }
        if let Some(id) = &self.correlation_id {
            message = message.correlation_id(id);
        }
        if let Some(lane) = &self.lane {
            message = message.lane(lane);
        }
        if let Some(unique) = self.unique() {
            message = message.unique(unique);
        }
        if let Some(delay) = self.due_in {
            message = message.due_after(delay);
        }
        if let Some(ahead) = self.head_start {
            message = message.head_start(ahead);
        }
        if let Some(ttl) = self.expires_in {
            message = message.expires_after(ttl);
        }
        if let Some(attempts) = self.max_attempts {
            message = message.max_attempts(attempts);
        }
        self.headers.iter().fold(message, |message, (name, value)| message.header(name, value))
    }
}

/// Prints what became of a message, by its id and that of its row.
fn print((id, row): (MessageId, WorkItemId), stored: &Stored, json: bool) -> Result<()> {
    let kept_out_by = Some(stored.id()).filter(|id| *id != row);
    if json {
        let mut told = json!({ "id": id.to_string(), "duplicate": stored.is_duplicate() });
        if let Some(other) = kept_out_by {
            told["kept_out_by"] = other.to_string().into();
        }
        if let Some(replaced) = stored.replaced() {
            told["replaced"] = replaced.to_string().into();
        }
        return output::json(&told);
    }
    match kept_out_by {
        Some(other) => {
            eprintln!("duplicate: this message has the unique key; nothing was stored");
            return output::line(other.to_string());
        }
        None if stored.is_duplicate() => {
            eprintln!("duplicate: a message with this id already exists; nothing was stored");
        }
        None => {}
    }
    if let Some(replaced) = stored.replaced() {
        eprintln!("{replaced} waited under the same unique key; it is dismissed");
    }
    output::line(id.to_string())
}

fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read the payload from stdin")?;
    let advice = "encode binary content as text first, for example with `base64`";
    Ok(String::from_utf8(bytes).map_err(|_| Problem::new("the payload is not UTF-8", advice))?)
}

fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)).map(|name| Kind::from_name(&name).unwrap_or_default())
}

fn parse_id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|error| format!("{error}; write one like 0198c1d4-7a2b-7c3d-8e4f-5a6b7c8d9e0f"))
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, like tenant=acme")?;
    Ok((name.to_owned(), value.to_owned()))
}
