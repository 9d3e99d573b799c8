//! The verbs, written once for every SQL database: pick the statement, bind, run, read. What a verb does to a row is
//! decided by [`Work`](crate::queue::Work); only the hot ones (insert, claim, ack, extend) are told in SQL alone.

mod inbox;
mod rows;
mod upkeep;

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::Result;
use crate::message::NewMessage;
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Settle, Settled, State, Verb, choose};
use crate::sql::dialect::{Dialect, Statements};
use crate::sql::{Expects, Session, Statement, TableNames, Value};
use crate::store::{FAILURES_KEPT, Record, Stored};
use rows::{int, opt, read_claimed, read_record, row_count, text, uuid};

/// Everything the verbs need besides a connection.
#[derive(Debug)]
pub(crate) struct Verbs {
    pub(crate) statements: Statements,
    pub(crate) tables: TableNames,
    /// Where the news of a death goes, in the transaction of that death.
    pub(crate) dead_letter_topic: Option<String>,
}

impl Verbs {
    pub(crate) fn new(dialect: &Dialect, tables: TableNames, dead_letter_topic: Option<String>, fence: &str) -> Self {
        Self { statements: Statements::new(dialect, &tables, fence), tables, dead_letter_topic }
    }

    pub(crate) fn insert(&self, message: &NewMessage, now: Timestamp) -> Statement {
        let id = message.work_item_id().as_uuid();
        let message_id = message.message_id.as_uuid();
        let due = message.due(now);
        let values = vec![
            uuid(Some(id)),
            uuid((message_id != id).then_some(message_id)),
            text(Some(message.kind.as_str())),
            text(Some(&message.topic)),
            text(Some(&message.payload)),
            text(message.destination.as_deref()),
            Value::Text(rows::headers_json(&message.headers)),
            text(message.correlation_id.as_deref()),
            int(now.max(due.unwrap_or(now)).as_micros()),
            opt(due.map(Timestamp::as_micros)),
            opt(message.expires(now).map(Timestamp::as_micros)),
            opt(message.max_attempts.map(i64::from)),
            int(now.as_micros()),
        ];
        Statement::new(&self.statements.outbox_insert, values).expecting(Expects::RowOrDuplicate)
    }

    pub(crate) fn ack(&self, queue: Queue, lease: &Lease, response: Option<&str>, now: Timestamp) -> Statement {
        let mut values = fence(lease);
        values.extend([int(now.as_micros()), text(response)]);
        Statement::new(&self.statements.of(queue).ack, values).expecting(Expects::RowOrLeaseLost)
    }

    /// Answers with a row if the lease still holds.
    pub(crate) fn held(&self, queue: Queue, lease: &Lease) -> Statement {
        Statement::new(&self.statements.of(queue).held, fence(lease))
    }

    pub(crate) async fn enqueue(
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

    pub(crate) async fn claim(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Claims> {
        let statements = self.statements.of(queue);
        let mut reaped = self.reap(session, queue, request.batch, now).await?;
        if queue == Queue::Outbox {
            reaped.expired += self.expire(session, request.batch, now).await?;
        }
        let until = now.plus(request.lease);
        let select =
            Statement::new(&statements.claim_select, vec![int(now.as_micros()), int(row_count(request.batch))]);
        let mut line = session.query(&select, |row| read_claimed(row, queue, request.owner, until)).await?;
        if line.is_empty() {
            let next = Statement::new(&statements.claim_next, Vec::new());
            let next = session.query(&next, |row| row.int(0)).await?.into_iter().flatten().next();
            return Ok(Claims { claimed: line, next_at: next.map(Timestamp::from_micros), reaped });
        }
        let crashes: Vec<u32> = line.iter().map(|claimed| claimed.lease.crashes).collect();
        let chosen = choose(&crashes);
        let lease = [uuid(Some(request.owner.as_uuid())), int(until.as_micros()), int(now.as_micros())];
        if chosen.len() == line.len() {
            let values = lease.into_iter().chain([int(row_count(request.batch))]).collect();
            session.execute(&Statement::new(&statements.claim_line, values)).await?;
        } else {
            let mut index = 0;
            line.retain(|_| (chosen.contains(&index), index += 1).0);
            for claimed in &line {
                let values = lease.iter().cloned().chain([int(claimed.lease.seq)]).collect();
                session.execute(&Statement::new(&statements.claim_one, values)).await?;
            }
        }
        Ok(Claims { claimed: line, next_at: None, reaped })
    }

    pub(crate) async fn settle(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[Settle],
        now: Timestamp,
    ) -> Result<Settled> {
        let mut settled = Settled::default();
        for settle in settles {
            if let Verb::Ack { response } = &settle.verb {
                let ack = self.ack(queue, &settle.lease, response.as_deref(), now).expecting(Expects::Anything);
                let acked = session.execute(&ack).await?.rows > 0;
                settled.count(acked.then_some(State::Done));
                continue;
            }
            let load = Statement::new(&self.statements.of(queue).load_lease, fence(&settle.lease));
            let Some(mut record) = self.load(session, queue, &load).await?.pop() else {
                settled.count(None);
                continue;
            };
            let was = record.state();
            match settle.verb.clone() {
                Verb::Ack { .. } => {}
                Verb::Release => record.work.release(now),
                Verb::Fail { error } => record.work.fail(error, now),
                Verb::Abandon { delay, error, counted } => record.work.abandon(delay, error, counted, now),
            }
            if let Verb::Fail { error } | Verb::Abandon { error, .. } = &settle.verb {
                self.note_failure(session, queue, &record, &settle.lease, error.as_deref(), now).await?;
            }
            self.save(session, queue, &record, was, settle.lease.claim_no, now).await?;
            settled.count(Some(record.state()));
        }
        Ok(settled)
    }

    pub(crate) async fn extend(
        &self,
        session: &mut impl Session,
        queue: Queue,
        leases: &[Lease],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let mut held = Vec::with_capacity(leases.len());
        for one in leases {
            let mut values = fence(one);
            values.push(int(now.plus(lease).as_micros()));
            let statement = Statement::new(&self.statements.of(queue).extend, values);
            held.push(session.execute(&statement).await?.rows > 0);
        }
        Ok(held)
    }

    async fn load(&self, session: &mut impl Session, queue: Queue, select: &Statement) -> Result<Vec<Record>> {
        session.query(select, |row| read_record(row, queue)).await
    }

    /// Writes a row's work columns back, if its claim number is still `claim_no`; a death is told in the same breath.
    async fn save(
        &self,
        session: &mut impl Session,
        queue: Queue,
        record: &Record,
        was: State,
        claim_no: i64,
        now: Timestamp,
    ) -> Result<()> {
        let saved = session.execute(&rows::save(&self.statements.of(queue).save, record, claim_no)).await?;
        if let (1.., Some(topic)) = (saved.rows, &self.dead_letter_topic)
            && let Some(news) = record.obituary(queue, was, topic)
        {
            session.execute(&self.insert(&news, now)).await?;
        }
        Ok(())
    }

    async fn note_failure(
        &self,
        session: &mut impl Session,
        queue: Queue,
        record: &Record,
        lease: &Lease,
        error: Option<&str>,
        now: Timestamp,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let values = vec![
            int(record.seq),
            int(now.as_micros()),
            int(i64::from(record.work.attempts)),
            uuid(Some(lease.owner.as_uuid())),
            text(error),
        ];
        session.execute(&Statement::new(&statements.failure_add, values)).await?;
        // Each failure follows a claim: fewer claims than that, and there is nothing to trim.
        if record.work.claim_no > row_count(FAILURES_KEPT) {
            let values = vec![int(record.seq), int(row_count(FAILURES_KEPT))];
            session.execute(&Statement::new(&statements.failure_trim, values)).await?;
        }
        Ok(())
    }
}

fn fence(lease: &Lease) -> Vec<Value> {
    vec![int(lease.seq), uuid(Some(lease.owner.as_uuid())), int(lease.claim_no)]
}
