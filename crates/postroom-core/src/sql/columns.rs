//! The columns of a message, each named once. The inserts, reads and updates of every database are built from these
//! lists, in their order.

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    Int,
    Text,
    /// Text or null.
    OptText,
    Bytes,
    Uuid,
}

use Holds::{Bytes, Int, OptText, Text, Uuid};

pub(crate) type Column = (&'static str, Holds);

/// The columns of a new row in the outbox. The values come from `outbox_row`.
pub(crate) const OUTBOX: &[Column] = &[
    ("id", Uuid),
    ("message_id", Uuid),
    ("kind", Text),
    ("topic", Text),
    ("payload", Text),
    ("destination", OptText),
    ("headers", OptText),
    ("correlation_id", OptText),
    ("lane", OptText),
    ("visible_at", Int),
    ("due_at", Int),
    ("expires_at", Int),
    ("max_attempts", Int),
    ("created_at", Int),
];

/// The columns of a new row in the inbox, besides its state. The values come from `inbox_row`.
pub(crate) const INBOX: &[Column] = &[
    ("source", Text),
    ("message_id", Text),
    ("kind", Text),
    ("topic", Text),
    ("payload", Text),
    ("hash", Bytes),
    ("headers", OptText),
    ("correlation_id", OptText),
    ("lane", OptText),
    ("visible_at", Int),
    ("due_at", Int),
    ("max_attempts", Int),
    ("created_at", Int),
    ("last_seen_at", Int),
    ("expires_at", Int),
];

/// The columns that may follow: who holds or handled the row, and the answer.
pub(crate) const INBOX_EXTRA: [Column; 2] = [("owner", Uuid), ("response", OptText)];
/// The columns that identify a row of the inbox. They are never updated.
pub(crate) const INBOX_KEPT: [&str; 3] = ["source", "message_id", "created_at"];
/// The columns that say when a row is due. What happens to the row sets them; a second arrival of the message does not.
pub(crate) const INBOX_TIMES: [&str; 3] = ["visible_at", "due_at", "expires_at"];

/// The columns that are written back. They stand between the row number with the claim number, and the state in which
/// the row was found. The values come from `saved_row`.
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
            /// The names, in capital letters.
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];
            /// The position after the last of them.
            pub(crate) const NEXT: usize = $first + NAMES.len();
        }
    };
}

/// The number of columns that identify a row: `{identity}`.
pub(crate) const IDENTITY: usize = 4;

read! {
    /// `{message}`: these columns, and the ones that identify the row.
    message from 0 =>
    SEQ, CLAIM_NO, ATTEMPTS, CRASHES, MAX_ATTEMPTS, DUE_AT, CREATED_AT, EXPIRES_AT, LAST_ERROR, CORRELATION_ID, LANE,
    HEADERS, KIND, TOPIC, PAYLOAD,
}

read! {
    /// `{record}`: the columns of a message, and these.
    record from super::message::NEXT + super::IDENTITY =>
    STATE, NEXT_ATTEMPT_AT, OWNER, LOCKED_UNTIL, LAST_ATTEMPT_AT, PROCESSED_AT, PROCESSED_BY, RESPONSE, DISMISSED_BY,
    DISMISSED_WHY,
}

read! {
    /// What a claim returns: a message, its position in the queue and, if it is read before it is written, its size and
    /// how many messages may have the turn in its lane that nobody has looked at.
    claimed from super::message::NEXT + super::IDENTITY => AT, PAYLOAD_BYTES, LANE_ROOM,
}

read! {
    /// What a claim returns that looked because it found nothing: no message, the first of each order, and whether
    /// there is a lane to look at.
    looked from super::message::NEXT + super::IDENTITY => READY, LEASED, EXPIRING, NOTED,
}

read! {
    /// `{brief}`: a finished message without its content. Its error, its party and its identity follow.
    brief from 0 =>
    SEQ, ATTEMPTS, PROCESSED_AT, EXPIRES_AT, TOPIC, STATE, CLAIM_NO, DUE_AT, CREATED_AT, DISMISSED_BY, DISMISSED_WHY,
}

/// Lists the columns, each in the form that `told` returns for its number, starting at one.
pub(crate) fn listed(columns: &[Column], told: impl Fn(usize, Column) -> String) -> String {
    let told = columns.iter().enumerate().map(|(place, column)| told(place + 1, *column));
    told.collect::<Vec<_>>().join(", ")
}

/// Lists the names as they appear in a text.
pub(crate) fn names(names: &[&str], before: &str) -> String {
    names.iter().map(|name| format!("{before}{}", name.to_ascii_lowercase())).collect::<Vec<_>>().join(", ")
}
