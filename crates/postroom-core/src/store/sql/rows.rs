//! Rows in and out of the database.

use uuid::Uuid;

use crate::message::{ContentHash, Headers, InboxKey, Kind, Message, MessageId, Origin, OwnerToken, WorkItemId};
use crate::queue::{Cause, Claimed, Lease, Queue, State, Work};
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

/// A row count as a number to bind.
pub(super) fn row_count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Rows as columns: an array of each.
pub(super) fn columns_of(rows: &[Vec<Value>]) -> Vec<Value> {
    let mut columns: Vec<Value> =
        rows.first().into_iter().flatten().map(|value| column_like(value, rows.len())).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            push(column, value.clone());
        }
    }
    columns
}

/// An empty column for values of this kind.
fn column_like(value: &Value, rows: usize) -> Value {
    match value {
        Value::Text(_) => Value::Texts(Vec::with_capacity(rows)),
        Value::Uuid(_) => Value::Uuids(Vec::with_capacity(rows)),
        _ => Value::Ints(Vec::with_capacity(rows)),
    }
}

fn push(column: &mut Value, value: Value) {
    match (column, value) {
        (Value::Texts(column), Value::Text(value)) => column.push(value),
        (Value::Uuids(column), Value::Uuid(value)) => column.push(value),
        (Value::Ints(column), Value::Int(value)) => column.push(value),
        _ => {}
    }
}

pub(super) fn headers_json(headers: &Headers) -> Option<String> {
    // A map of strings always has a JSON form.
    (!headers.is_empty()).then(|| serde_json::to_string(headers).unwrap_or_default())
}

/// The columns of a message, in the order every dialect selects them.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const CLAIM_NO: usize = 1;
    pub(super) const ATTEMPTS: usize = 2;
    pub(super) const CRASHES: usize = 3;
    pub(super) const MAX_ATTEMPTS: usize = 4;
    pub(super) const DUE_AT: usize = 5;
    pub(super) const CREATED_AT: usize = 6;
    pub(super) const EXPIRES_AT: usize = 7;
    pub(super) const LAST_ERROR: usize = 8;
    pub(super) const CORRELATION_ID: usize = 9;
    pub(super) const HEADERS: usize = 10;
    pub(super) const KIND: usize = 11;
    pub(super) const TOPIC: usize = 12;
    pub(super) const PAYLOAD: usize = 13;
    pub(super) const IDENTITY: usize = 14;
    /// Only in a claim's answer.
    pub(super) const CLAIMED_AT: usize = 18;
    /// Only where a claim reads before it writes.
    pub(super) const PAYLOAD_BYTES: usize = 19;
    pub(super) const STATE: usize = 18;
    pub(super) const NEXT_ATTEMPT_AT: usize = 19;
    pub(super) const OWNER: usize = 20;
    pub(super) const LOCKED_UNTIL: usize = 21;
    pub(super) const LAST_ATTEMPT_AT: usize = 22;
    pub(super) const PROCESSED_AT: usize = 23;
    pub(super) const PROCESSED_BY: usize = 24;
    pub(super) const RESPONSE: usize = 25;
    pub(super) const DISMISSAL: usize = 26;
}

/// When a claimed row was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Its claim number is still the last claim's.
    BeforeClaim,
    /// By the claim itself.
    AfterClaim,
}

/// Where in line a row stood that a claim answers with. A server that cannot tell says when it was to be tried again;
/// the first time, it stood where it came in or where it was due.
pub(super) fn claimed_at(row: &dyn Row) -> Result<Timestamp> {
    if let Some(at) = moment(row, column::CLAIMED_AT)? {
        return Ok(at);
    }
    let created_at = number(row, column::CREATED_AT).map(Timestamp::from_micros)?;
    Ok(moment(row, column::DUE_AT)?.unwrap_or(created_at).max(created_at))
}

/// How many bytes of payload a row holds.
pub(super) fn payload_bytes(row: &dyn Row) -> Result<u64> {
    Ok(u64::try_from(number(row, column::PAYLOAD_BYTES)?).unwrap_or(0))
}

/// A row that cannot be read as a message still has its lease: it can be abandoned like any other.
pub(super) fn read_claimed(
    row: &dyn Row,
    queue: Queue,
    owner: OwnerToken,
    until: Timestamp,
    read: Read,
) -> Result<Claimed> {
    let lease = Lease {
        seq: number(row, column::SEQ)?,
        owner,
        claim_no: number(row, column::CLAIM_NO)? + i64::from(read == Read::BeforeClaim),
        until,
        attempts: count(row, column::ATTEMPTS).ok().flatten().unwrap_or(0),
        crashes: count(row, column::CRASHES).ok().flatten().unwrap_or(0),
    };
    Ok(Claimed { lease, message: read_message(row, queue).map_err(|error| error.to_string()) })
}

pub(super) fn read_record(row: &dyn Row, queue: Queue) -> Result<Record> {
    // The work columns are read whatever is in them: a row nobody can read must not keep the others from being worked
    // on. What is wrong with it is said in place of its message.
    let code = row.int(column::STATE).ok().flatten().unwrap_or(-1);
    let state = State::from_code(code);
    let work = Work {
        state: state.unwrap_or(State::Dead),
        due_at: moment(row, column::DUE_AT).unwrap_or(None),
        next_attempt_at: moment(row, column::NEXT_ATTEMPT_AT).unwrap_or(None),
        attempts: count(row, column::ATTEMPTS).ok().flatten().unwrap_or(0),
        max_attempts: count(row, column::MAX_ATTEMPTS).unwrap_or(None),
        crashes: count(row, column::CRASHES).ok().flatten().unwrap_or(0),
        claim_no: number(row, column::CLAIM_NO).unwrap_or(0),
        owner: owner(row, column::OWNER).unwrap_or(None),
        locked_until: moment(row, column::LOCKED_UNTIL).unwrap_or(None),
        last_error: row.text(column::LAST_ERROR).unwrap_or(None),
        last_attempt_at: moment(row, column::LAST_ATTEMPT_AT).unwrap_or(None),
        created_at: Timestamp::from_micros(number(row, column::CREATED_AT).unwrap_or(0)),
        processed_at: moment(row, column::PROCESSED_AT).unwrap_or(None),
        processed_by: owner(row, column::PROCESSED_BY).unwrap_or(None),
        expires_at: moment(row, column::EXPIRES_AT).unwrap_or(None),
    };
    let message = match state {
        Some(_) => read_message(row, queue),
        None => Err(corrupt("state", &code.to_string())),
    };
    Ok(Record {
        seq: number(row, column::SEQ)?,
        work,
        message: message.map_err(|error| error.to_string()),
        response: row.text(column::RESPONSE).unwrap_or(None),
        dismissal: read_dismissal(row, column::DISMISSAL).map(Box::new),
    })
}

fn read_message(row: &dyn Row, queue: Queue) -> Result<Message> {
    let kind = row.str(column::KIND)?.unwrap_or_default();
    let headers = match row.str(column::HEADERS)? {
        None => Headers::new(),
        Some(json) => serde_json::from_str(json)
            .map_err(|source| corrupt("headers", "not a JSON object of texts").caused_by(source))?,
    };
    Ok(Message {
        origin: read_origin(row, queue, column::IDENTITY)?,
        kind: Kind::from_name(kind).ok_or_else(|| corrupt("kind", kind))?,
        topic: row.text(column::TOPIC)?.ok_or_else(|| corrupt("topic", "null"))?,
        payload: row.text(column::PAYLOAD)?.ok_or_else(|| corrupt("payload", "null"))?,
        headers,
        correlation_id: row.text(column::CORRELATION_ID)?,
        created_at: Timestamp::from_micros(number(row, column::CREATED_AT)?),
        due_at: moment(row, column::DUE_AT)?,
        expires_at: moment(row, column::EXPIRES_AT)?,
        attempts: count(row, column::ATTEMPTS)?.unwrap_or(0),
        max_attempts: count(row, column::MAX_ATTEMPTS)?,
        last_error: row.text(column::LAST_ERROR)?,
    })
}

/// What a row is known by: four columns, from that one on.
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

/// Who dismissed a row and why: two columns, from that one on.
pub(super) fn read_dismissal(row: &dyn Row, first: usize) -> Option<Operator> {
    let text = |column| row.text(column).ok().flatten();
    Some(Operator::dismissed(text(first)?, Some(text(first + 1)?)))
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

/// What is written back of a row, and its claim number as it must still be.
pub(super) fn save(record: &Record, claim_no: i64) -> Vec<Value> {
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
    ]
}

/// What the lists ask for. Rows are taken from a number on and up to one: a range, which an index can be entered by.
pub(super) fn filter_values(filter: &Filter, state: Option<State>) -> Vec<Value> {
    vec![
        opt(state.map(State::code)),
        text(filter.topic.as_deref()),
        text(filter.party.as_deref()),
        time(filter.finished_since),
        int(filter.after.unwrap_or(i64::MIN)),
        int(row_count(filter.limit)),
        int(filter.up_to.unwrap_or(i64::MAX)),
    ]
}

/// What puts a row back in line, if it still stands as it was.
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
