//! The verbs of a receiver. A message's row, the handler's effects and the answer are one transaction.

use std::time::Duration;

use uuid::Uuid;

use super::rows::{inbox_row, int, uuid};
use super::{Change, Record, Session, SqlVerbs};
use crate::message::{InboxKey, Incoming, MessageId, Origin, OwnerToken, WorkItemId};
use crate::queue::{Cause, Lease, Noted, Queue, State};
use crate::sql::Statement;
use crate::sql::plans::Arrive;
use crate::sql::text::SqlTemplate;
use crate::sql::{Expects, Value};
use crate::store::Admission;
use crate::support::clock::Timestamp;
use crate::support::error::{ErrorKind, Result};

impl SqlVerbs {
    /// Adds the row of an incoming message to this transaction and holds it for `hold`, or returns what is known of it.
    pub(crate) async fn arrive(
        &self,
        session: &mut impl Session,
        incoming: &Incoming,
        hold: Duration,
        now: Timestamp,
    ) -> Result<Admission> {
        let (owner, until) = (OwnerToken::new(), self.late(now).plus(hold));
        if let Arrive::Looked { look, .. } = &self.statements.arrive {
            let found = self.load(session, Queue::Inbox, &look.with(super::inbox::key_values(&incoming.key))).await;
            match found.map(|mut rows| rows.pop()) {
                Ok(None) => {}
                Ok(Some(record)) => return self.admit(session, record, incoming, owner, until, now).await,
                Err(error) if error.kind() == ErrorKind::NotCommitted => return Ok(Admission::Busy),
                Err(error) => return Err(error),
            }
        }
        if incoming.is_past_expiry(self.early(now)) {
            // If anything is known of the message, that decides. A new row would end here.
            let Some(record) = self.by_key(session, &incoming.key).await? else { return Ok(Admission::Expired) };
            return self.admit(session, record, incoming, owner, until, now).await;
        }
        let mut row = inbox_row(incoming, Some(until), now, self.late(now));
        row.push(uuid(Some(owner.as_uuid())));
        let hold = vec![uuid(Some(owner.as_uuid())), int(now.as_micros()), int(until.as_micros())];
        match self.insert_arrival(session, row, hold).await? {
            Inserted::Row(seq) => {
                if let Some(runs) = &self.statements.inbox.runs {
                    let owner = uuid(Some(owner.as_uuid()));
                    let values = vec![int(seq), int(seq), int(1), owner, int(now.as_micros()), int(until.as_micros())];
                    session.execute(&runs.hold.with(values)).await?;
                }
                let lease = Lease { seq, owner, claim_no: 1, until, attempts: 0, crashes: 0 };
                Ok(Admission::Held { lease, message: Box::new(incoming.to_message(now)) })
            }
            Inserted::Twin => Ok(Admission::Busy),
            Inserted::Nothing => {
                let record = self.by_key(session, &incoming.key).await?.ok_or_else(super::inbox::vanished)?;
                self.admit(session, record, incoming, owner, until, now).await
            }
        }
    }

    /// Returns the statements for a new message that was handled in this transaction: the message, and that it is done.
    pub(crate) fn handled(&self, incoming: &Incoming, response: Option<&str>, now: Timestamp) -> Vec<Statement> {
        let late = self.late(now);
        let owner = uuid(Some(OwnerToken::new().as_uuid()));
        let mut row = inbox_row(incoming, None, late, late);
        row.extend([owner.clone(), super::text(response)]);
        let done = self.statements.inbox.runs.as_ref();
        let done = done.map(|runs| runs.done.with(vec![int(late.as_micros()), owner, super::text(response)]));
        let insert = self.statements.inbox_alone.handled.with(row).expecting(Expects::RowOrDuplicate);
        std::iter::once(insert).chain(done).collect()
    }

    async fn insert_arrival(&self, session: &mut impl Session, row: Vec<Value>, hold: Vec<Value>) -> Result<Inserted> {
        let inserting = |sql: &SqlTemplate| sql.with(row).expecting(Expects::RowOrDuplicate);
        let inserted = match &self.statements.arrive {
            Arrive::Answered(sql) => session.query(&inserting(sql), |row| Ok((row.int(0)?, row.int(1)?))).await?.pop(),
            Arrive::Looked { insert, hold: sql, .. } => match session.execute(&inserting(insert)).await?.duplicate {
                true => None,
                false => session.query(&sql.with(hold), |row| Ok((None, row.int(0)?))).await?.pop(),
            },
        };
        Ok(match inserted {
            Some((Some(0), _)) => Inserted::Twin,
            Some((_, Some(seq))) => Inserted::Row(seq),
            _ => Inserted::Nothing,
        })
    }

    async fn admit(
        &self,
        session: &mut impl Session,
        mut record: Record,
        incoming: &Incoming,
        owner: OwnerToken,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Admission> {
        let (was, claim_no) = (record.state(), record.work.claim_no);
        let admission = record.admit(incoming, owner, until, now, self.clock.doubt());
        if matches!(admission, Admission::Held { .. }) {
            if was == State::Seen {
                session.execute(&self.content(incoming, &record, now)).await?;
            }
            let change = Change { record, was, claim_no, failure: None };
            self.write_back(session, Queue::Inbox, &[change], now).await?;
        }
        Ok(admission)
    }

    /// Refuses a message for good; later requests get the refusal as the answer. If the message became known in another
    /// way meanwhile, that stays.
    pub(crate) async fn refuse(
        &self,
        session: &mut impl Session,
        incoming: &Incoming,
        why: &str,
        now: Timestamp,
    ) -> Result<Admission> {
        let admission = self.arrive(session, incoming, REFUSING, now).await?;
        let Admission::Held { lease, .. } = admission else { return Ok(admission) };
        let Some(mut record) = self.by_key(session, &incoming.key).await? else {
            return Err(super::inbox::vanished());
        };
        let was = record.state();
        record.refuse(why, now);
        let failure = Some((Some(lease.owner), Noted::new(Cause::Refused, why)));
        let change = Change { record, was, claim_no: lease.claim_no, failure };
        self.write_back(session, Queue::Inbox, &[change], now).await?;
        Ok(Admission::Refused { why: why.to_owned() })
    }

    /// Stores a service's answer with its message. Returns false if there is no such message, or if it has an answer.
    pub(crate) async fn answer(
        &self,
        session: &mut impl Session,
        (message, from): (MessageId, &str),
        response: &str,
        now: Timestamp,
    ) -> Result<bool> {
        let by_id = |id: Uuid| self.statements.outbox.load_key.with(vec![Value::Uuid(Some(id))]);
        let derived = by_id(WorkItemId::of(message, Some(from)).as_uuid());
        let mut found = self.load(session, Queue::Outbox, &derived).await?.pop();
        if found.is_none() {
            // Another program gave the row a different id.
            let select = self.statements.outbox_by_message.with(vec![Value::Uuid(Some(message.as_uuid()))]);
            let rows = self.load(session, Queue::Outbox, &select).await?;
            let own = rows.iter().find_map(|row| match &row.message.as_ref().ok()?.origin {
                Origin::Outbox { id, destination, .. } if destination.as_deref() == Some(from) => Some(id.as_uuid()),
                _ => None,
            });
            if let Some(own) = own {
                found = self.load(session, Queue::Outbox, &by_id(own)).await?.pop();
            }
        }
        let Some(mut record) = found else { return Ok(false) };
        if record.response.is_some() {
            return Ok(false);
        }
        let (was, claim_no) = (record.state(), record.work.claim_no);
        record.response = Some(response.to_owned());
        let change = Change { record, was, claim_no, failure: None };
        self.write_back(session, Queue::Outbox, &[change], now).await?;
        Ok(true)
    }

    /// Returns a statement that finds the row without locking it.
    pub(crate) fn find_by_key(&self, key: &InboxKey) -> Statement {
        self.statements.inbox.find_key.with(super::inbox::key_values(key))
    }

    /// Returns the row, locked until the transaction ends.
    pub(super) async fn by_key(&self, session: &mut impl Session, key: &InboxKey) -> Result<Option<Record>> {
        let select = self.statements.inbox.load_key.with(super::inbox::key_values(key));
        Ok(self.load(session, Queue::Inbox, &select).await?.pop())
    }
}

/// A refusal holds the row only as long as its own transaction.
const REFUSING: Duration = Duration::from_secs(60);

enum Inserted {
    Row(i64),
    /// Another transaction is handling the same message at this moment.
    Twin,
    /// The row existed before.
    Nothing,
}
