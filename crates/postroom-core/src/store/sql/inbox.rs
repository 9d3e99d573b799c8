//! The verbs of the inbox alone.

use super::arriving::{Arriving, hash_value};
use super::rows::{headers_json, int, opt, text};
use super::{Record, Session, SqlVerbs, Statement};
use crate::message::{ContentHash, InboxKey, Incoming};
use crate::queue::{Queue, State};
use crate::sql::{Expects, Value};
use crate::store::{Arrival, ManualMove, PutMode, Sighting};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

impl SqlVerbs {
    /// In the caller's own transaction: the row is new, or was only seen before.
    pub(crate) fn accept(&self, incoming: &Incoming, now: Timestamp) -> Statement {
        let values = self.arriving(incoming, now).in_line();
        let seen = self.statements.inbox_accept_seen.as_ref();
        let seen = seen.map(|seen| Box::new(seen.with(values.clone()).expecting(Expects::RowOrDuplicate)));
        let mut accept = self.statements.inbox_accept.with(values).expecting(Expects::RowOrDuplicate);
        accept.otherwise = seen;
        accept
    }

    pub(super) fn arriving<'a>(&self, incoming: &'a Incoming, now: Timestamp) -> Arriving<'a> {
        Arriving { incoming, now, late: self.late(now) }
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
        let see = self.statements.inbox_see.with(values).expecting(Expects::RowOrDuplicate);
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
        let insert = self.statements.inbox_insert.with(self.arriving(incoming, now).in_line());
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
            session.execute(&self.content(record.seq, incoming, now)).await?;
            self.save(session, Queue::Inbox, &record, was, claim_no, now).await?;
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
            let begin = self.statements.inbox_begin.with(vec![int(record.seq), int(now.as_micros())]);
            return Ok(session.execute(&begin).await?.rows > 0);
        }
        self.save(session, Queue::Inbox, &record, was, claim_no, now).await?;
        if let Some(failure) = mark.failure().filter(|_| !is_ours) {
            self.note_failure(session, Queue::Inbox, &record, None, &failure, now).await?;
        }
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
        session.execute(&self.statements.inbox_touch.with(values)).await?;
        Ok(())
    }

    pub(super) fn content(&self, seq: i64, incoming: &Incoming, now: Timestamp) -> Statement {
        let values = vec![
            int(seq),
            text(Some(incoming.kind.as_str())),
            text(Some(&incoming.topic)),
            text(Some(&incoming.payload)),
            hash_value(incoming.hash.as_ref()),
            Value::Text(headers_json(&incoming.headers)),
            text(incoming.correlation_id.as_deref()),
            int(now.as_micros()),
            opt(incoming.max_attempts.map(i64::from)),
        ];
        self.statements.inbox_content.with(values)
    }
}

pub(super) fn key_values(key: &InboxKey) -> Vec<Value> {
    vec![text(Some(key.source())), text(Some(key.message_id()))]
}

/// The row was there when it was inserted and is gone: somebody purged it in between. Tried again, it is new.
pub(super) fn vanished() -> Error {
    Error::new(ErrorKind::NotCommitted, "the message's row was purged in the same moment")
}
