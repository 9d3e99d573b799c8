//! Converts rows to and from the database's form.

use std::sync::Arc;

use uuid::Uuid;

use crate::message::{
    ContentHash, Headers, InboxKey, Incoming, Kind, Message, MessageId, NewMessage, Origin, OwnerToken, WorkItemId,
};
use crate::queue::{Cause, Claimed, Lease, Queue, State, Work, first_due};
use crate::sql::columns::{claimed, message, record};
use crate::sql::text::SqlTemplate;
use crate::sql::{Row, Statement, Value};
use crate::store::{Failure, Filter, Operator, Record};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

pub(super) fn int(value: i64) -> Value {
    Value::Int(Some(value))
}

pub(super) fn opt(value: Option<i64>) -> Value {
    Value::Int(value)
}

pub(super) fn time(value: Option<Timestamp>) -> Value {
    Value::Int(value.map(Timestamp::as_micros))
}

pub(super) fn text(value: Option<&str>) -> Value {
    Value::Text(value.map(str::to_owned))
}

pub(super) fn uuid(value: Option<Uuid>) -> Value {
    Value::Uuid(value)
}

/// Returns a row count as a number to bind.
pub(super) fn row_count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

pub(super) fn headers_json(headers: &Headers) -> Option<String> {
    // A map of strings always has a JSON form.
    (!headers.is_empty()).then(|| serde_json::to_string(headers).unwrap_or_default())
}

/// What is known of a row before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing has happened to the message, so what is counted of that need not be read.
    Fresh,
    /// It was claimed by the query itself, or whatever else happened to it.
    Any,
}

/// Returns the position in the queue of a claimed row. A server that does not return it gives the time of the next
/// attempt. For the first attempt, the position is when the row was stored or due.
pub(super) fn claimed_at(row: &dyn Row) -> Result<Timestamp> {
    if let Some(at) = moment(row, claimed::AT)? {
        return Ok(at);
    }
    let created_at = number(row, message::CREATED_AT).map(Timestamp::from_micros)?;
    Ok(moment(row, message::DUE_AT)?.unwrap_or(created_at).max(created_at))
}

/// Returns the size of a row's payload in bytes.
pub(super) fn payload_bytes(row: &dyn Row) -> Result<u64> {
    Ok(u64::try_from(number(row, claimed::PAYLOAD_BYTES)?).unwrap_or(0))
}

/// Reads a claimed row. A row that is unreadable as a message still has its lease and can be abandoned like any other.
pub(super) fn read_claimed(
    row: &dyn Row,
    queue: Queue,
    owner: OwnerToken,
    until: Timestamp,
    known: Known,
) -> Result<Claimed> {
    let counted = |column| count(row, column).ok().flatten().unwrap_or(0);
    let (claim_no, attempts, crashes) = match known {
        Known::Fresh => (1, 0, 0),
        Known::Any => (number(row, message::CLAIM_NO)?, counted(message::ATTEMPTS), counted(message::CRASHES)),
    };
    let lease = Lease { seq: number(row, message::SEQ)?, owner, claim_no, until, attempts, crashes };
    Ok(Claimed { lease, message: read_message(row, queue, known).map(Arc::new).map_err(|error| error.to_string()) })
}

pub(super) fn read_record(row: &dyn Row, queue: Queue) -> Result<Record> {
    // The work columns are read whatever they contain, because an unreadable row must not block the others. The problem
    // takes the place of the message.
    let code = row.int(record::STATE).ok().flatten().unwrap_or(-1);
    let state = State::from_code(code);
    let work = Work {
        state: state.unwrap_or(State::Dead),
        due_at: moment(row, message::DUE_AT).unwrap_or(None),
        next_attempt_at: moment(row, record::NEXT_ATTEMPT_AT).unwrap_or(None),
        attempts: count(row, message::ATTEMPTS).ok().flatten().unwrap_or(0),
        max_attempts: count(row, message::MAX_ATTEMPTS).unwrap_or(None),
        crashes: count(row, message::CRASHES).ok().flatten().unwrap_or(0),
        claim_no: number(row, message::CLAIM_NO).unwrap_or(0),
        owner: owner(row, record::OWNER).unwrap_or(None),
        locked_until: moment(row, record::LOCKED_UNTIL).unwrap_or(None),
        last_error: row.text(message::LAST_ERROR).unwrap_or(None),
        last_attempt_at: moment(row, record::LAST_ATTEMPT_AT).unwrap_or(None),
        created_at: Timestamp::from_micros(number(row, message::CREATED_AT).unwrap_or(0)),
        processed_at: moment(row, record::PROCESSED_AT).unwrap_or(None),
        processed_by: owner(row, record::PROCESSED_BY).unwrap_or(None),
        expires_at: moment(row, message::EXPIRES_AT).unwrap_or(None),
    };
    let message = match state {
        Some(_) => read_message(row, queue, Known::Any),
        None => Err(corrupt("state", &code.to_string())),
    };
    Ok(Record {
        seq: number(row, message::SEQ)?,
        work,
        message: message.map_err(|error| error.to_string()),
        response: row.text(record::RESPONSE).unwrap_or(None),
        dismissal: read_dismissal(row, record::DISMISSED_BY, record::DISMISSED_WHY).map(Box::new),
    })
}

fn read_message(row: &dyn Row, queue: Queue, known: Known) -> Result<Message> {
    let kind = row.str(message::KIND)?.unwrap_or_default();
    let headers = match row.str(message::HEADERS)? {
        None => Headers::new(),
        Some(json) => serde_json::from_str(json)
            .map_err(|source| corrupt("headers", "not a JSON object of texts").caused_by(source))?,
    };
    let payload = row.text(message::PAYLOAD)?;
    let (attempts, last_error) = match known {
        Known::Fresh => (0, None),
        Known::Any => (count(row, message::ATTEMPTS)?.unwrap_or(0), row.text(message::LAST_ERROR)?),
    };
    Ok(Message {
        origin: read_origin(row, queue, message::NEXT)?,
        kind: Kind::from_name(kind).ok_or_else(|| corrupt("kind", kind))?,
        topic: row.text(message::TOPIC)?.ok_or_else(|| corrupt("topic", "null"))?,
        payload_dropped: payload.is_none(),
        payload: payload.unwrap_or_default(),
        headers,
        correlation_id: row.text(message::CORRELATION_ID)?,
        lane: row.text(message::LANE)?,
        created_at: Timestamp::from_micros(number(row, message::CREATED_AT)?),
        due_at: moment(row, message::DUE_AT)?,
        expires_at: moment(row, message::EXPIRES_AT)?,
        attempts,
        max_attempts: count(row, message::MAX_ATTEMPTS)?,
        last_error,
    })
}

/// Reads the identity of a row: four columns, starting at `first`.
pub(super) fn read_origin(row: &dyn Row, queue: Queue, first: usize) -> Result<Origin> {
    match queue {
        Queue::Outbox => {
            let id = row.uuid(first)?.ok_or_else(|| corrupt("id", "null"))?;
            Ok(Origin::Outbox {
                id: WorkItemId::from_uuid(id)?,
                message_id: MessageId::from_uuid(row.uuid(first + 1)?.unwrap_or(id))?,
                destination: row.text(first + 2)?,
            })
        }
        Queue::Inbox => Ok(Origin::Inbox {
            key: InboxKey::new(row.text(first)?.unwrap_or_default(), row.text(first + 1)?.unwrap_or_default())?,
            hash: row.bytes(first + 2)?.map(ContentHash::of_stored),
            last_seen_at: Timestamp::from_micros(number(row, first + 3)?),
        }),
    }
}

/// Reads who dismissed a row, and why.
pub(super) fn read_dismissal(row: &dyn Row, by: usize, why: usize) -> Option<Operator> {
    let text = |column| row.text(column).ok().flatten();
    Some(Operator::dismissed(text(by)?, Some(text(why)?)))
}

pub(super) fn read_failure(row: &dyn Row) -> Result<Failure> {
    Ok(Failure {
        at: Timestamp::from_micros(number(row, 0)?),
        attempt: count(row, 1)?.unwrap_or(0),
        worker: owner(row, 2)?,
        error: row.text(3)?,
        cause: row.str(4)?.and_then(Cause::of_code),
    })
}

/// Returns a message as a row of the outbox. Its time to live begins at `late`.
pub(super) fn outbox_row(message: &NewMessage, now: Timestamp, late: Timestamp) -> Vec<Value> {
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
        Value::Text(headers_json(&message.headers)),
        text(message.correlation_id.as_deref()),
        text(message.lane.as_deref()),
        int(first_due(due, now).as_micros()),
        time(due),
        time(message.expires(late)),
        opt(message.max_attempts.map(i64::from)),
        int(now.as_micros()),
    ]
}

/// Returns an incoming message as a row of the inbox, ready at that time or not at all. Its time to live begins at
/// `late`.
pub(super) fn inbox_row(
    incoming: &Incoming,
    visible_at: Option<Timestamp>,
    now: Timestamp,
    late: Timestamp,
) -> Vec<Value> {
    vec![
        text(Some(incoming.key.source())),
        text(Some(incoming.key.message_id())),
        text(Some(incoming.kind.as_str())),
        text(Some(&incoming.topic)),
        text(Some(&incoming.payload)),
        hash_value(incoming.hash.as_ref()),
        Value::Text(headers_json(&incoming.headers)),
        text(incoming.correlation_id.as_deref()),
        text(incoming.lane.as_deref()),
        time(visible_at),
        time(incoming.due_at),
        opt(incoming.max_attempts.map(i64::from)),
        int(now.as_micros()),
        int(now.as_micros()),
        time(incoming.expires(late)),
    ]
}

pub(super) fn hash_value(hash: Option<&ContentHash>) -> Value {
    Value::Bytes(hash.map(ContentHash::stored))
}

/// Returns what is written back of a row: its number, the claim number that it must still have, its work columns, and
/// the state in which it was found.
pub(super) fn saved_row(record: &Record, claim_no: i64, was: State) -> Vec<Value> {
    let work = &record.work;
    vec![
        int(record.seq),
        int(claim_no),
        int(work.state.code()),
        time(work.visible_at()),
        time(work.due_at),
        time(work.next_attempt_at),
        int(i64::from(work.attempts)),
        int(i64::from(work.crashes)),
        int(work.claim_no),
        uuid(work.owner.map(OwnerToken::as_uuid)),
        time(work.locked_until),
        text(work.last_error.as_deref()),
        time(work.processed_at),
        uuid(work.processed_by.map(OwnerToken::as_uuid)),
        time(work.expires_at),
        text(record.response.as_deref()),
        int(was.code()),
    ]
}

/// Returns the values of a list: `{filter}`, and the state if it is not part of the text.
pub(super) fn filter_values(filter: &Filter) -> Vec<Value> {
    vec![
        text(filter.topic.as_deref()),
        text(filter.party.as_deref()),
        time(filter.finished_since),
        int(filter.after.unwrap_or(i64::MIN)),
        int(row_count(filter.limit)),
        int(filter.up_to.unwrap_or(i64::MAX)),
        opt(filter.state.map(State::code)),
    ]
}

/// Returns a statement that puts a row back in the queue if it has not changed.
pub(super) fn put_back(sql: &SqlTemplate, seq: i64, claim_no: i64, was: State, work: &Work) -> Statement {
    sql.with(vec![
        int(seq),
        int(claim_no),
        int(was.code()),
        int(work.state.code()),
        time(work.visible_at()),
        time(work.next_attempt_at),
        int(i64::from(work.attempts)),
        int(i64::from(work.crashes)),
        time(work.processed_at),
        time(work.expires_at),
    ])
}

pub(super) fn number(row: &dyn Row, column: usize) -> Result<i64> {
    row.int(column)?.ok_or_else(|| corrupt("a number", "null"))
}

pub(super) fn count(row: &dyn Row, column: usize) -> Result<Option<u32>> {
    let read = row.int(column)?;
    read.map(|value| u32::try_from(value).map_err(|_| corrupt("a count", &value.to_string()))).transpose()
}

pub(super) fn moment(row: &dyn Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.int(column)?.map(Timestamp::from_micros))
}

fn owner(row: &dyn Row, column: usize) -> Result<Option<OwnerToken>> {
    row.uuid(column)?.map(OwnerToken::from_uuid).transpose()
}

fn corrupt(what: &str, value: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the row is corrupt: {what} is {value}"))
}
