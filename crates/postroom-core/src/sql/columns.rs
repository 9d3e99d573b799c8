//! The columns of a message, each named once: what is inserted, read and written back is told to every database from
//! these lists, in their order.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    Int,
    Text,
    /// Text, or nothing.
    OptText,
    Bytes,
    Uuid,
}

use Holds::{Bytes, Int, OptText, Text, Uuid};

pub(crate) type Column = (&'static str, Holds);

/// A row of the outbox as it is inserted: the values are those of `outbox_row`.
pub(crate) const OUTBOX: &[Column] = &[
    ("id", Uuid),
    ("message_id", Uuid),
    ("kind", Text),
    ("topic", Text),
    ("payload", Text),
    ("destination", OptText),
    ("headers", OptText),
    ("correlation_id", OptText),
    ("visible_at", Int),
    ("due_at", Int),
    ("expires_at", Int),
    ("max_attempts", Int),
    ("created_at", Int),
];

/// A row of the inbox as it is inserted, with its state beside it: the values are those of `inbox_row`.
pub(crate) const INBOX: &[Column] = &[
    ("source", Text),
    ("message_id", Text),
    ("kind", Text),
    ("topic", Text),
    ("payload", Text),
    ("hash", Bytes),
    ("headers", OptText),
    ("correlation_id", OptText),
    ("visible_at", Int),
    ("due_at", Int),
    ("max_attempts", Int),
    ("created_at", Int),
    ("last_seen_at", Int),
    ("expires_at", Int),
];

/// What may follow those: who holds the row, or handled it, and the answer.
pub(crate) const INBOX_EXTRA: [Column; 2] = [("owner", Uuid), ("response", OptText)];
/// What a row of the inbox is known by: never written again.
pub(crate) const INBOX_KEPT: [&str; 3] = ["source", "message_id", "created_at"];
/// When it is worked on: decided by what becomes of the row, not by a second arrival of the message.
pub(crate) const INBOX_TIMES: [&str; 3] = ["visible_at", "due_at", "expires_at"];

/// What is written back of a row, between its number with its claim number and the state it was found in: the values
/// are those of `saved_row`.
pub(crate) const SAVED: &[Column] = &[
    ("state", Int),
    ("visible_at", Int),
    ("due_at", Int),
    ("next_attempt_at", Int),
    ("attempts", Int),
    ("crashes", Int),
    ("claim_no", Int),
    ("owner", Uuid),
    ("locked_until", Int),
    ("last_error", OptText),
    ("processed_at", Int),
    ("processed_by", Uuid),
    ("expires_at", Int),
    ("response", OptText),
];

macro_rules! read {
    ($(#[$doc:meta])* $module:ident from $first:expr => $($name:ident),* $(,)?) => {
        $(#[$doc])*
        #[allow(dead_code, reason = "a column is listed whether it is read by its position or not")]
        pub(crate) mod $module {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Position { $($name),* }
            $(pub(crate) const $name: usize = $first + Position::$name as usize;)*
            /// Their names, in capital letters.
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];
            /// The position behind them.
            pub(crate) const NEXT: usize = $first + NAMES.len();
        }
    };
}

/// The number of columns that a row is known by: `{identity}`.
pub(crate) const IDENTITY: usize = 4;

read! {
    /// `{message}`: these, and what the row is known by.
    message from 0 =>
    SEQ, CLAIM_NO, ATTEMPTS, CRASHES, MAX_ATTEMPTS, DUE_AT, CREATED_AT, EXPIRES_AT, LAST_ERROR, CORRELATION_ID, HEADERS,
    KIND, TOPIC, PAYLOAD,
}

read! {
    /// `{record}`: a message, and these.
    record from super::message::NEXT + super::IDENTITY =>
    STATE, NEXT_ATTEMPT_AT, OWNER, LOCKED_UNTIL, LAST_ATTEMPT_AT, PROCESSED_AT, PROCESSED_BY, RESPONSE, DISMISSED_BY,
    DISMISSED_WHY,
}

read! {
    /// What a claim answers with: a message, where in line it stood and, if it is read before it is written, its size.
    claimed from super::message::NEXT + super::IDENTITY => AT, PAYLOAD_BYTES,
}

read! {
    /// `{brief}`: a message that ended, without what it holds; its error, its party and what it is known by follow.
    brief from 0 =>
    SEQ, ATTEMPTS, PROCESSED_AT, EXPIRES_AT, TOPIC, STATE, CLAIM_NO, DUE_AT, CREATED_AT, DISMISSED_BY, DISMISSED_WHY,
}

/// Columns as a list: each as `told` says, with its number from one on.
pub(crate) fn listed(columns: &[Column], told: impl Fn(usize, Column) -> String) -> String {
    let told = columns.iter().enumerate().map(|(place, column)| told(place + 1, *column));
    told.collect::<Vec<_>>().join(", ")
}

/// Names as they stand in a text.
pub(crate) fn names(names: &[&str], before: &str) -> String {
    names.iter().map(|name| format!("{before}{}", name.to_ascii_lowercase())).collect::<Vec<_>>().join(", ")
}
