//! Many rows at once, in the way the database takes them.

use std::collections::HashSet;

use super::rows::{self, int, text, uuid};
use super::{Session, SqlVerbs};
use crate::message::NewMessage;
use crate::queue::{Lease, Queue};
use crate::sql::dialect::Batch;
use crate::sql::text::SqlTemplate;
use crate::sql::{Expects, Row, Statement, Value};
use crate::store::{Identity, Stored};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// So many rows in one text: a few sizes, so that their statements stay prepared.
const SIZES: [usize; 4] = [500, 200, 100, 50];
/// So many acks in one statement.
pub(super) const LIST_MAX: usize = SIZES[0];
/// Fewer than that travel as they are.
const SMALL: usize = 32;
/// The same for rows of which each value is numbered: a server takes 2,100 values in one statement.
const LISTS: [usize; 2] = [150, 50];
/// So many rows in one set of arrays.
pub(super) const ARRAY_ROWS_MAX: usize = 20_000;
/// So many leases in one text.
const LEASES_MAX: usize = 1000;
/// A text with many payloads must not outgrow what the server takes at once.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl SqlVerbs {
    pub(crate) async fn enqueue(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let mut stored = match self.batch {
            Batch::EachRow => self.enqueue_each(session, messages, now).await?,
            Batch::Arrays => self.enqueue_arrays(session, messages, now).await?,
            Batch::Lists => self.enqueue_lists(session, messages, now).await?,
            Batch::Rows => self.enqueue_rows(session, messages, now).await?,
        };
        if session.in_doubt() {
            for stored in stored.iter_mut().filter(|stored| stored.duplicate) {
                // It is no duplicate if it was stored by the try whose commit was not answered.
                let found = self.find(session, &Identity::Outbox(stored.id.as_uuid())).await?;
                stored.duplicate = !found.iter().any(|row| row.work.created_at == now);
            }
        }
        Ok(stored)
    }

    async fn enqueue_each(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let mut stored = Vec::with_capacity(messages.len());
        for message in messages {
            let done = session.execute(&self.insert(message, now)).await?;
            stored.push(Stored { id: message.work_item_id(), duplicate: done.duplicate });
        }
        Ok(stored)
    }

    async fn enqueue_arrays(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let mut stored = Vec::with_capacity(messages.len());
        for chunk in messages.chunks(ARRAY_ROWS_MAX) {
            let insert = self.statements.outbox_insert_batch.with(columns(chunk, now, self.late(now)));
            stored.extend(self.insert_new(session, chunk, &insert).await?);
        }
        Ok(stored)
    }

    /// Runs an insert that answers with the ids of what is new.
    async fn insert_new(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        insert: &Statement,
    ) -> Result<Vec<Stored>> {
        let mut new: HashSet<_> = session.query(insert, |row| row.uuid(0)).await?.into_iter().collect();
        let stored = messages.iter().map(|message| {
            let id = message.work_item_id();
            // The second of two with the same id is a duplicate too.
            Stored { id, duplicate: !new.remove(&Some(id.as_uuid())) }
        });
        Ok(stored.collect())
    }

    async fn enqueue_lists(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let mut stored = Vec::with_capacity(messages.len());
        for chunk in chunks_that_fit(messages, &LISTS) {
            // Rows are compared with what is stored, but not with each other.
            let mut known = HashSet::new();
            let firsts = chunk.iter().filter(|message| known.insert(message.work_item_id()));
            let rows: Vec<_> = firsts.map(|message| listed(message, now, self.late(now))).collect();
            let insert = self.statements.outbox_insert_batch.with_rows(&[int(now.as_micros())], &rows);
            stored.extend(self.insert_new(session, chunk, &insert.expecting(Expects::RowOrDuplicate)).await?);
        }
        Ok(stored)
    }

    async fn enqueue_rows(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let mut stored = Vec::with_capacity(messages.len());
        for chunk in chunks_that_fit(messages, &SIZES) {
            match self.insert_rows(session, chunk, now).await? {
                Some(new) => stored.extend(new),
                // Which of the rows was there already is seen one by one.
                None => stored.extend(self.enqueue_each(session, chunk, now).await?),
            }
        }
        Ok(stored)
    }

    /// Acknowledges many; says how many leases held.
    pub(super) async fn ack_many(
        &self,
        session: &mut impl Session,
        queue: Queue,
        acks: &[(&Lease, Option<&str>)],
        now: Timestamp,
    ) -> Result<u64> {
        let statements = self.statements.of(queue);
        match self.batch {
            _ if acks.is_empty() => Ok(0),
            Batch::EachRow => {
                let mut held = 0;
                for (lease, response) in acks {
                    let ack = self.ack(queue, lease, *response, now).expecting(Expects::Anything);
                    held += session.execute(&ack).await?.rows;
                }
                Ok(held)
            }
            Batch::Arrays => {
                let mut values = lease_columns(acks.iter().map(|(lease, _)| *lease));
                values.push(Value::Texts(acks.iter().map(|(_, response)| response.map(str::to_owned)).collect()));
                values.push(int(self.late(now).as_micros()));
                Ok(session.execute(&statements.ack_batch.with(values)).await?.rows)
            }
            Batch::Lists => self.ack_list(session, queue, acks, now).await,
            Batch::Rows => {
                let rows = acks.iter().map(|(lease, response)| {
                    let mut row = Self::fence(lease);
                    row.push(text(*response));
                    row
                });
                self.execute_list(session, &statements.ack_batch, &[int(self.late(now).as_micros())], rows.collect())
                    .await
            }
        }
    }

    /// Those with an answer go one by one: what is in JSON comes out of it changed on some servers.
    async fn ack_list(
        &self,
        session: &mut impl Session,
        queue: Queue,
        acks: &[(&Lease, Option<&str>)],
        now: Timestamp,
    ) -> Result<u64> {
        let mut held = 0;
        for (lease, response) in acks.iter().filter(|(_, response)| response.is_some()) {
            let ack = self.ack(queue, lease, *response, now).expecting(Expects::Anything);
            held += session.execute(&ack).await?.rows;
        }
        let silent: Vec<_> = acks.iter().filter(|(_, response)| response.is_none()).map(|(lease, _)| *lease).collect();
        for chunk in silent.chunks(LEASES_MAX) {
            let values = vec![lease_list(chunk.iter().copied()), int(self.late(now).as_micros())];
            held += session.execute(&self.statements.of(queue).ack_batch.with(values)).await?.rows;
        }
        Ok(held)
    }

    pub(crate) async fn extend(
        &self,
        session: &mut impl Session,
        queue: Queue,
        leases: &[Lease],
        lease: std::time::Duration,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let (statements, until) = (self.statements.of(queue), int(self.late(now).plus(lease).as_micros()));
        // In the order in which acks lock them.
        let mut sorted: Vec<&Lease> = leases.iter().collect();
        sorted.sort_unstable_by_key(|lease| lease.seq);
        if self.batch.claims_at_once() {
            let mut held = HashSet::new();
            for chunk in sorted.chunks(LEASES_MAX) {
                let mut values = match self.batch {
                    Batch::Lists => vec![lease_list(chunk.iter().copied())],
                    _ => lease_columns(chunk.iter().copied()),
                };
                values.push(until.clone());
                // By both: of two leases on one row, one is over.
                let read = |row: &dyn Row| Ok((row.int(0)?, row.int(1)?));
                held.extend(session.query(&statements.extend_batch.with(values), read).await?);
            }
            let is_held = |lease: &Lease| held.contains(&(Some(lease.seq), Some(lease.claim_no)));
            return Ok(leases.iter().map(is_held).collect());
        }
        let mut held = HashSet::new();
        for lease in sorted {
            let mut values = Self::fence(lease);
            values.push(until.clone());
            if session.execute(&statements.extend.with(values)).await?.rows > 0 {
                held.insert((lease.seq, lease.claim_no));
            }
        }
        Ok(leases.iter().map(|lease| held.contains(&(lease.seq, lease.claim_no))).collect())
    }

    /// Runs a text that takes a list, in as few steps as it can; says how many rows changed.
    pub(super) async fn execute_list(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        values: &[Value],
        rows: Vec<Vec<Value>>,
    ) -> Result<u64> {
        let mut changed = 0;
        for chunk in rows.chunks(LIST_MAX) {
            changed += session.execute(&sql.with_rows(values, &filled(chunk.to_vec()))).await?.rows;
        }
        Ok(changed)
    }

    /// Stores messages by one statement, outside any other transaction; none when that cannot be: nothing is stored.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) async fn autocommit_enqueue(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Option<Vec<Stored>>> {
        match self.batch {
            Batch::Arrays if messages.len() <= ARRAY_ROWS_MAX => {
                self.enqueue_arrays(session, messages, now).await.map(Some)
            }
            Batch::Lists if rows_that_fit(messages, &LISTS) == messages.len() => {
                self.enqueue_lists(session, messages, now).await.map(Some)
            }
            Batch::Rows if rows_that_fit(messages, &SIZES) == messages.len() => {
                self.insert_rows(session, messages, now).await
            }
            _ => Ok(None),
        }
    }

    /// Stores messages by one statement; none when one of them was there already, and nothing is stored.
    async fn insert_rows(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Option<Vec<Stored>>> {
        let rows: Vec<_> = messages.iter().map(|message| row(message, now, self.late(now))).collect();
        let insert = self.statements.outbox_insert_batch.with_rows(&[], &rows).expecting(Expects::RowOrDuplicate);
        let is_stored = !session.execute(&insert).await?.duplicate;
        let new = |message: &NewMessage| Stored { id: message.work_item_id(), duplicate: false };
        Ok(is_stored.then(|| messages.iter().map(new).collect()))
    }
}

fn size_below(rows: usize, sizes: &[usize]) -> usize {
    sizes.iter().copied().find(|size| *size <= rows).unwrap_or(rows.clamp(1, SMALL))
}

/// A list that is filled up to a size that stays prepared: a row that is named twice is found, or changes, once.
pub(super) fn filled(mut list: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let last = list.last().cloned().unwrap_or_default();
    list.resize(size_above(list.len()), last);
    list
}

fn size_above(rows: usize) -> usize {
    SIZES.into_iter().rev().find(|size| rows > SMALL && *size >= rows).unwrap_or(rows)
}

fn chunks_that_fit<'m>(mut rest: &'m [NewMessage], sizes: &'static [usize]) -> impl Iterator<Item = &'m [NewMessage]> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (chunk, after) = rest.split_at(rows_that_fit(rest, sizes));
        rest = after;
        Some(chunk)
    })
}

fn rows_that_fit(messages: &[NewMessage], sizes: &[usize]) -> usize {
    let mut bytes = 0;
    let fit = messages.iter().take_while(|message| {
        bytes += message.payload.len();
        bytes <= TEXT_BYTES_MAX
    });
    size_below(fit.count(), sizes)
}

/// Rows in pieces that a server takes at once.
pub(super) fn chunks_of(mut rest: &[Vec<Value>], rows_max: usize) -> impl Iterator<Item = &[Vec<Value>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fit = rest.iter().take(rows_max).take_while(|row| {
            bytes += row.iter().map(Value::text_bytes).sum::<usize>();
            bytes <= TEXT_BYTES_MAX
        });
        let (chunk, after) = rest.split_at(fit.count().max(1).min(rest.len()));
        rest = after;
        Some(chunk).filter(|chunk| !chunk.is_empty())
    })
}

/// A message as the values of its row. What it lives for begins at `late`.
pub(super) fn row(message: &NewMessage, now: Timestamp, late: Timestamp) -> Vec<Value> {
    let id = message.work_item_id().as_uuid();
    let message_id = message.message_id.as_uuid();
    let due = message.due(now);
    vec![
        uuid(Some(id)),
        uuid((message_id != id).then_some(message_id)),
        text(Some(message.kind.as_str())),
        text(Some(&message.topic)),
        text(Some(&message.payload)),
        text(message.destination.as_deref()),
        Value::Text(rows::headers_json(&message.headers)),
        text(message.correlation_id.as_deref()),
        int(now.max(due.unwrap_or(now)).as_micros()),
        rows::time(due),
        rows::time(message.expires(late)),
        rows::opt(message.max_attempts.map(i64::from)),
        int(now.as_micros()),
    ]
}

/// A message as the values of its row in a list. When it was made is the same for all; and what is null there is a
/// blank, which no name, no headers and no correlation id can be: the text of the list must not depend on it.
fn listed(message: &NewMessage, now: Timestamp, late: Timestamp) -> Vec<Value> {
    let mut row = row(message, now, late);
    row.pop();
    for value in &mut row {
        if *value == Value::Text(None) {
            *value = text(Some(" "));
        }
    }
    row
}

/// Messages as the columns of their rows. The last one, when they were made, is the same for all.
fn columns(messages: &[NewMessage], now: Timestamp, late: Timestamp) -> Vec<Value> {
    let rows: Vec<_> = messages.iter().map(|message| row(message, now, late)).collect();
    let mut columns = rows::columns_of(&rows);
    if let Some(last) = columns.last_mut() {
        *last = int(now.as_micros());
    }
    columns
}

pub(super) fn lease_columns<'l>(leases: impl Iterator<Item = &'l Lease> + Clone) -> Vec<Value> {
    vec![
        Value::Ints(leases.clone().map(|lease| Some(lease.seq)).collect()),
        Value::Uuids(leases.clone().map(|lease| Some(lease.owner.as_uuid())).collect()),
        Value::Ints(leases.map(|lease| Some(lease.claim_no)).collect()),
    ]
}

pub(super) fn lease_list<'l>(leases: impl Iterator<Item = &'l Lease>) -> Value {
    let listed = leases.map(|lease| {
        let (seq, claim_no, owner) = (lease.seq, lease.claim_no, lease.owner.as_uuid());
        serde_json::json!({ "n": seq, "o": owner.to_string(), "c": claim_no })
    });
    Value::Text(Some(serde_json::Value::Array(listed.collect()).to_string()))
}
