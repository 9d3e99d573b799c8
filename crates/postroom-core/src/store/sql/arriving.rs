//! The row of a message that arrives: its values, by what becomes of it.

use super::rows::{headers_json, int, opt, text, time, uuid};
use crate::message::{ContentHash, Incoming, OwnerToken};
use crate::sql::Value;
use crate::support::clock::Timestamp;

/// A message that arrives.
#[derive(Clone, Copy)]
pub(super) struct Arriving<'a> {
    pub(super) incoming: &'a Incoming,
    pub(super) now: Timestamp,
    /// What it lives for begins here.
    pub(super) late: Timestamp,
}

impl Arriving<'_> {
    /// In line: `inbox_insert`, `inbox_accept`.
    pub(super) fn in_line(self) -> Vec<Value> {
        self.visible_at(self.now.max(self.incoming.due_at.unwrap_or(self.now)))
    }

    /// Held by `owner`: `inbox_arrive`.
    pub(super) fn held(self, owner: OwnerToken, until: Timestamp) -> Vec<Value> {
        let mut values = self.visible_at(until);
        values.push(uuid(Some(owner.as_uuid())));
        values
    }

    /// Handled already: `inbox_handled`.
    #[cfg(feature = "sqlite")]
    pub(super) fn handled(self, by: OwnerToken, response: Option<&str>) -> Vec<Value> {
        let end = [uuid(Some(by.as_uuid())), text(response)];
        self.content().into_iter().chain(self.terms()).chain(end).collect()
    }

    fn visible_at(self, at: Timestamp) -> Vec<Value> {
        self.content().into_iter().chain([int(at.as_micros())]).chain(self.terms()).collect()
    }

    /// What it is known by, and what it holds: `source` to `correlation_id`.
    fn content(self) -> [Value; 8] {
        let incoming = self.incoming;
        [
            text(Some(incoming.key.source())),
            text(Some(incoming.key.message_id())),
            text(Some(incoming.kind.as_str())),
            text(Some(&incoming.topic)),
            text(Some(&incoming.payload)),
            hash_value(incoming.hash.as_ref()),
            Value::Text(headers_json(&incoming.headers)),
            text(incoming.correlation_id.as_deref()),
        ]
    }

    /// When it is due, how often it may fail, when it was written and when it expires.
    fn terms(self) -> [Value; 4] {
        [
            time(self.incoming.due_at),
            opt(self.incoming.max_attempts.map(i64::from)),
            int(self.now.as_micros()),
            time(self.incoming.expires(self.late)),
        ]
    }
}

pub(super) fn hash_value(hash: Option<&ContentHash>) -> Value {
    Value::Bytes(hash.map(ContentHash::stored))
}
