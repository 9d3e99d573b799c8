//! The verbs of the inbox only.

use super::rows::{hash_value, inbox_row, int, text};
use super::write_back::moved_meanwhile;
use super::{Change, Record, Session, SqlVerbs, Statement};
use crate::message::{ContentHash, InboxKey, Incoming};
use crate::queue::{Queue, State, first_due};
use crate::sql::columns::INBOX;
use crate::sql::{Expects, Value};
use crate::store::{Arrival, ManualMove, PutMode, Sighting};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

impl SqlVerbs {
    /// Enqueues in the caller's own transaction. The row is new, or was only seen before.
    pub(crate) fn accept(&self, incoming: &Incoming, now: Timestamp) -> Statement {
        let values = self.in_line(incoming, now);
        let seen = self.statements.accept_seen.as_ref();
        let seen = seen.map(|seen| Box::new(seen.with(values.clone()).expecting(Expects::RowOrDuplicate)));
        let mut accept = self.statements.inbox_alone.accept.with(values).expecting(Expects::RowOrDuplicate);
        accept.otherwise = seen;
        accept
    }

    fn in_line(&self, incoming: &Incoming, now: Timestamp) -> Vec<Value> {
        self.notice(Queue::Inbox, incoming.lane.as_ref(), (incoming.due_at, now));
        inbox_row(incoming, Some(first_due(incoming.due_at, now)), now, self.late(now))
    }

    pub(crate) async fn see(
        &self,
        session: &mut impl Session,
        key: &InboxKey,
        hash: Option<&ContentHash>,
        now: Timestamp,
    ) -> Result<Sighting> {
        let values =
            vec![text(Some(key.source())), text(Some(key.message_id())), hash_value(hash), int(now.as_micros())];
        let see = self.statements.inbox_alone.see.with(values).expecting(Expects::RowOrDuplicate);
        if !session.execute(&see).await?.duplicate {
            return Ok(Sighting { done: false, hash_differs: false });
        }
        let record = self.by_key(session, key).await?.ok_or_else(vanished)?;
        self.touch(session, &record, hash, now).await?;
        let stored = record.message.as_ref().ok().and_then(|message| message.hash());
        let hash_differs = stored.zip(hash).is_some_and(|(stored, arrived)| stored.differs(arrived));
        Ok(Sighting { done: record.state() == State::Done, hash_differs })
    }

    pub(crate) async fn put(
        &self,
        session: &mut impl Session,
        incoming: &Incoming,
        mode: PutMode,
        now: Timestamp,
    ) -> Result<Arrival> {
        let insert = self.statements.inbox_alone.insert.with(self.in_line(incoming, now));
        if !session.execute(&insert.expecting(Expects::RowOrDuplicate)).await?.duplicate {
            return Ok(Arrival::First);
        }
        let mut record = self.by_key(session, &incoming.key).await?.ok_or_else(vanished)?;
        if session.in_doubt() && record.work.created_at == now {
            return Ok(Arrival::First);
        }
        let (was, claim_no) = (record.state(), record.work.claim_no);
        let arrival = record.put(incoming, mode, self.late(now));
        if matches!(arrival, Arrival::Known { .. }) {
            self.touch(session, &record, None, now).await?;
        } else {
            session.execute(&self.content(incoming, &record, now)).await?;
            let change = Change { record, was, claim_no, failure: None };
            self.write_back(session, Queue::Inbox, &[change], now).await?;
        }
        Ok(arrival)
    }

    pub(crate) async fn mark(
        &self,
        session: &mut impl Session,
        key: &InboxKey,
        mark: &ManualMove,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(mut record) = self.by_key(session, key).await? else { return Ok(false) };
        let (was, claim_no) = (record.state(), record.work.claim_no);
        let processing = *mark == ManualMove::Processing;
        let began = was == State::Processing && record.last_attempt_at() == Some(now);
        if session.in_doubt() && processing && began {
            return Ok(true);
        }
        let is_ours = session.in_doubt() && was == State::Dead && record.processed_at() == Some(now);
        if !record.apply_mark(mark, now) {
            return Ok(session.in_doubt() && record.processed_at() == Some(now));
        }
        if processing {
            let begin = self.statements.inbox_alone.begin.with(vec![int(record.seq), int(now.as_micros())]);
            return match session.execute(&begin).await?.rows {
                0 if self.statements.checks_saves => Err(moved_meanwhile()),
                rows => Ok(rows > 0),
            };
        }
        let failure = mark.failure().filter(|_| !is_ours).map(|failure| (None, failure));
        self.write_back(session, Queue::Inbox, &[Change { record, was, claim_no, failure }], now).await?;
        Ok(true)
    }

    async fn touch(
        &self,
        session: &mut impl Session,
        record: &Record,
        hash: Option<&ContentHash>,
        now: Timestamp,
    ) -> Result<()> {
        let values = vec![int(record.seq), int(now.as_micros()), hash_value(hash)];
        session.execute(&self.statements.inbox_alone.touch.with(values)).await?;
        Ok(())
    }

    /// Returns the statement that stores what arrived, in the lane that its record has.
    pub(super) fn content(&self, incoming: &Incoming, record: &Record, now: Timestamp) -> Statement {
        let mut row = inbox_row(incoming, None, now, self.late(now));
        let lane = record.message.as_ref().ok().and_then(|message| message.lane.as_deref());
        let place = INBOX.iter().position(|(name, _)| *name == "lane");
        place.into_iter().for_each(|place| row[place] = text(lane));
        self.statements.inbox_alone.content.with(row)
    }
}

pub(super) fn key_values(key: &InboxKey) -> Vec<Value> {
    vec![text(Some(key.source())), text(Some(key.message_id()))]
}

/// Returns the error for a row that existed during the insert and was purged since. A retry finds it new.
pub(super) fn vanished() -> Error {
    Error::new(ErrorKind::NotCommitted, "the message's row was purged at the same moment")
}
