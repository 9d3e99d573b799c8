//! Renders a dialect's texts for one store. Words in braces stand for parts that several statements share.

use std::borrow::Cow;

use crate::queue::Queue;
use crate::sql::TableNames;
use crate::sql::columns::{self, Column, Holds, brief, listed, message, names, record};
use crate::sql::dialect::{Dialect, ERROR_CHARS, Fence, Identity};
use crate::sql::shared;
use crate::sql::text::SqlTemplate;

/// Puts the names of one queue and the columns of its rows into a dialect's texts.
pub(crate) struct Renderer<'a> {
    dialect: &'a Dialect,
    identity: &'a Identity,
    columns: &'static [Column],
    /// Words that are created once.
    words: Vec<(&'static str, String)>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(dialect: &'a Dialect, tables: &TableNames, queue: Queue, fence: Fence) -> Self {
        let (identity, columns) = match queue {
            Queue::Outbox => (&dialect.outbox, columns::OUTBOX),
            Queue::Inbox => (&dialect.inbox, columns::INBOX),
        };
        let place = |number: usize, (_, holds): Column| place(dialect, number, holds);
        let array = |number: usize, (_, holds): Column| format!("?{number}::{}[]", type_of(holds));
        let written =
            |kept: &[&str]| columns.iter().filter(|(name, _)| !kept.contains(name)).copied().collect::<Vec<_>>();
        let number = |name: &str| 1 + columns.iter().position(|column| column.0 == name).unwrap_or_default();
        let set = |(name, holds): Column| format!("{name} = {}", place(number(name), (name, holds)));
        let (accepted, content) =
            (written(&columns::INBOX_KEPT), written(&[columns::INBOX_KEPT, columns::INBOX_TIMES].concat()));
        let key = [("seq", Holds::Int), ("claim_no", Holds::Int)];
        let saved = [&key[..], columns::SAVED, &[("state", Holds::Int)]].concat();
        let words = vec![
            ("t", format!("{}{}", tables.prefix(), tables.of(queue))),
            ("n", tables.of(queue).to_owned()),
            ("s", tables.prefix()),
            ("identity", identity.columns.to_owned()),
            ("fence", fence.one.to_owned()),
            ("fence_each", fence.each.unwrap_or_default().to_owned()),
            ("error_chars", ERROR_CHARS.to_string()),
            // A new row: its columns, and its values one by one, for each row of a text, and as arrays.
            ("new", listed(columns, |_, (name, _)| name.to_owned())),
            ("new_values", listed(columns, place)),
            ("new_marks", listed(columns, |_, _| "?".to_owned())),
            ("new_arrays", listed(columns, array)),
            (
                "new_listed",
                listed(columns, |_, (name, holds)| match holds {
                    Holds::OptText => format!("NULLIF(a.{name}, N' ')"),
                    _ => format!("a.{name}"),
                }),
            ),
            // The columns that change if a message was seen before: all of them, or only its content.
            ("accepted", listed(&accepted, |_, column| set(column))),
            ("accepted_excluded", listed(&accepted, |_, (name, _)| format!("{name} = excluded.{name}"))),
            ("content", listed(&content, |_, column| set(column))),
            // The columns that are written back.
            (
                "saved",
                listed(columns::SAVED, |number, (name, holds)| {
                    format!("{name} = {}", place(2 + number, (name, holds)))
                }),
            ),
            ("saved_each", listed(columns::SAVED, |number, (name, _)| format!("{name} = a.v{}", 2 + number))),
            ("was", format!("?{}", saved.len())),
            ("was_each", format!("a.v{}", saved.len())),
            ("saved_arrays", listed(&saved, array)),
            ("saved_names", listed(&saved, |number, _| format!("v{number}"))),
            ("saved_places", listed(&saved, place)),
            ("saved_json", (1..=saved.len()).map(|number| format!("v{number}")).collect::<Vec<_>>().join(" ")),
            ("saved_marks", listed(&saved, |_, _| "?".to_owned())),
            ("saved_named_marks", listed(&saved, |number, _| format!("? AS v{number}"))),
            // The columns that are read.
            ("message", format!("{}, {{identity}}", names(message::NAMES, ""))),
            ("record", format!("{{message}}, {}", names(record::NAMES, ""))),
            ("bare", format!("{{message|'' AS payload}}, {}", names(record::NAMES, ""))),
            ("brief", format!("{}, {{error}}, {{party}}, {{identity}}", names(brief::NAMES, ""))),
            ("no_message", vec!["NULL"; message::NEXT + columns::IDENTITY].join(", ")),
            ("inserted", inserted(identity)),
            // The columns of a view that come from the message `m` and its trouble `t`, and the same where every
            // message had some, or none.
            ("wide", wide("m.seq", columns, true)),
            ("wide_ended", wide("t.seq", columns, true)),
            ("wide_fresh", wide("m.seq", columns, false)),
        ];
        Self { dialect, identity, columns, words }
    }

    pub(crate) fn one(&self, text: &str) -> SqlTemplate {
        SqlTemplate::new(self.dialect.places, &self.told(text))
    }

    /// Returns the text with every word replaced, including words inside replacements.
    pub(crate) fn told(&self, text: &str) -> String {
        let (mut told, mut rest) = (String::with_capacity(text.len() * 2), text);
        while let Some((before, after)) = rest.split_once('{') {
            told.push_str(before);
            let word = after.split_once('}').and_then(|(name, behind)| Some((self.word(name)?, behind)));
            rest = match word {
                Some((word, behind)) => {
                    told.push_str(&self.told(&word));
                    behind
                }
                None => {
                    told.push('{');
                    after
                }
            };
        }
        told + rest
    }

    fn word(&self, name: &str) -> Option<Cow<'_, str>> {
        // The placeholder of a value, by the name of its column.
        if let Some(name) = name.strip_prefix('@') {
            let columns = self.columns.iter().chain(&columns::INBOX_EXTRA);
            let mut numbered = (1..).zip(columns);
            return numbered
                .find(|(_, column)| column.0 == name)
                .map(|(number, column)| place(self.dialect, number, column.1).into());
        }
        // The place of a text behind those of a new row.
        if let Some(behind) = name.strip_prefix("behind|").and_then(|number| number.parse::<usize>().ok()) {
            return Some(format!("?{}::text", self.columns.len() + behind).into());
        }
        // A message with something in place of its payload.
        if let Some(payload) = name.strip_prefix("message|") {
            let names = message::NAMES.iter().map(|name| match *name {
                "PAYLOAD" => payload.to_owned(),
                name => name.to_ascii_lowercase(),
            });
            return Some(format!("{}, {{identity}}", names.collect::<Vec<_>>().join(", ")).into());
        }
        // Takes a number out of a table of runs, in a trigger. The other columns follow.
        if let Some((table, columns)) = name.strip_prefix("leave|").and_then(|rest| rest.split_once('|')) {
            return Some(leave(table, columns).into());
        }
        let found = self.dialect.words.iter().find(|word| word.0 == name).map(|word| word.1);
        let identity = || match name {
            "key" => Some(self.identity.key),
            "party" => Some(self.identity.party),
            "here" => Some(self.identity.here),
            "destination" => Some(self.identity.destination),
            "seen" => Some(self.identity.seen),
            _ => None,
        };
        let made = || self.words.iter().find(|word| word.0 == name).map(|word| word.1.as_str());
        let default = || shared::WORDS.iter().find(|word| word.0 == name).map(|word| word.1);
        found.or_else(identity).or_else(made).or_else(default).map(Cow::Borrowed)
    }
}

/// The columns of a message that its trouble, or a later arrival, replaces.
fn wide(number: &str, columns: &[Column], with_trouble: bool) -> String {
    let of_message = columns.iter().filter(|(name, _)| *name != "visible_at").map(|(name, _)| match *name {
        "expires_at" if with_trouble => {
            "CASE WHEN t.seq IS NULL THEN m.expires_at ELSE t.expires_at END AS expires_at".to_owned()
        }
        // A message of the inbox that was done long ago has lost its payload.
        "payload" if with_trouble && columns.iter().any(|(name, _)| *name == "hash") => {
            "CASE WHEN m.dropped_at IS NULL THEN m.payload END AS payload".to_owned()
        }
        "hash" => "coalesce(m.hash, s.hash) AS hash".to_owned(),
        "last_seen_at" => "coalesce(s.at, m.last_seen_at) AS last_seen_at".to_owned(),
        name => format!("m.{name}"),
    });
    let of_trouble = match with_trouble {
        true => {
            "coalesce(t.attempts, 0) AS attempts, coalesce(t.crashes, 0) AS crashes, t.last_error, t.next_attempt_at, \
             t.dismissed_by, t.dismissed_why"
        }
        false => {
            "0 AS attempts, 0 AS crashes, NULL AS last_error, NULL AS next_attempt_at, NULL AS dismissed_by, \
             NULL AS dismissed_why"
        }
    };
    format!("{number}, {}, {of_trouble}", of_message.collect::<Vec<_>>().join(", "))
}

fn leave(table: &str, columns: &str) -> String {
    let run = format!("{{t}}_{table}");
    format!(
        "INSERT INTO {run} (from_seq, to_seq, {columns}) SELECT OLD.seq + 1, to_seq, {columns} FROM {run}
    WHERE from_seq = (SELECT max(from_seq) FROM {run} WHERE from_seq <= OLD.seq) AND to_seq > OLD.seq;
    UPDATE {run} SET to_seq = OLD.seq - 1
    WHERE from_seq = (SELECT max(from_seq) FROM {run} WHERE from_seq < OLD.seq) AND to_seq >= OLD.seq;
    DELETE FROM {run} WHERE from_seq = OLD.seq;"
    )
}

fn place(dialect: &Dialect, number: usize, holds: Holds) -> String {
    if dialect.casts { format!("?{number}::{}", type_of(holds)) } else { format!("?{number}") }
}

/// Returns the type name in a dialect that uses casts.
fn type_of(holds: Holds) -> &'static str {
    match holds {
        Holds::Int => "bigint",
        Holds::Text | Holds::OptText => "text",
        Holds::Bytes => "bytea",
        Holds::Uuid => "uuid",
    }
}

/// The columns of a message, as returned by the statement that wrote it. Columns refer to the written row; values stay
/// as they are.
fn inserted(identity: &Identity) -> String {
    let is_column = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let identity = identity.columns.split(", ");
    let identity = identity.map(|word| if is_column(&word) { format!("inserted.{word}") } else { word.to_owned() });
    format!("{}, {}", names(message::NAMES, "inserted."), identity.collect::<Vec<_>>().join(", "))
}

pub(crate) fn schema(dialect: &Dialect, tables: &TableNames, queues: [&Renderer<'_>; 2]) -> String {
    let each = queues.map(|queue| queue.told(dialect.schema_each.unwrap_or_default())).concat();
    let create = tables.schema().and_then(|schema| Some(dialect.create_schema?.replace("{schema}", schema)));
    let secure = dialect.secure.filter(|_| tables.schema().is_none()).unwrap_or_default();
    let text = dialect
        .schema
        .replace("{secure}", secure)
        .replace("{create_schema}\n\n", &create.unwrap_or_default())
        .replace("{each}\n", &each);
    named(&text, tables)
        .replace("{channel}", &tables.channel())
        .replace("{each_byte}", &(0..=u8::MAX).map(|byte| format!("{byte:02x}")).collect::<String>())
        // A function with the rights of its owner must not use what somebody else put into the caller's path.
        .replace("{path}", "= pg_catalog, pg_temp")
        .replace("{now_ms}", "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")
}

/// Returns a text with the names of the tables.
pub(crate) fn named(text: &str, tables: &TableNames) -> String {
    let prefix = tables.prefix();
    let (outbox, inbox) = (tables.of(Queue::Outbox), tables.of(Queue::Inbox));
    text.replace("{outbox_name}", outbox)
        .replace("{inbox_name}", inbox)
        .replace("{outbox}", &format!("{prefix}{outbox}"))
        .replace("{inbox}", &format!("{prefix}{inbox}"))
        .replace("{schema}", tables.schema().unwrap_or_default())
        .replace("{s}", &prefix)
}
