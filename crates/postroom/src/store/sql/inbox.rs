//! The verbs of the inbox alone.

use super::rows::{headers_json, int, opt, read_record, text, time};
use super::{Record, Session, Statement, Verbs};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::message::{InboxKey, Incoming};
use crate::queue::{Queue, State};
use crate::sql::{Expects, Value};
use crate::store::{Arrival, Mark, PutMode, Sighting};

impl Verbs {
    /// In the caller's own transaction: the row is new, or was only seen before.
    pub(crate) fn accept(&self, incoming: &Incoming, now: Timestamp) -> Statement {
        let accept = Statement::new(&self.statements.inbox_accept, Self::arrival(incoming, now));
        accept.expecting(Expects::RowOrDuplicate)
    }

    fn arrival(incoming: &Incoming, now: Timestamp) -> Vec<Value> {
        vec![
            text(Some(incoming.key.source())),
            text(Some(incoming.key.message_id())),
            text(Some(incoming.kind.as_str())),
            text(Some(&incoming.topic)),
            text(Some(&incoming.payload)),
            Value::Bytes(incoming.hash.clone()),
            Value::Text(headers_json(&incoming.headers)),
            text(incoming.correlation_id.as_deref()),
            int(now.max(incoming.due_at.unwrap_or(now)).as_micros()),
            time(incoming.due_at),
            opt(incoming.max_attempts.map(i64::from)),
            int(now.as_micros()),
        ]
    }

    pub(crate) async fn see(
        &self,
        session: &mut impl Session,
        key: &InboxKey,
        hash: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Sighting> {
        let values = vec![
            text(Some(key.source())),
            text(Some(key.message_id())),
            Value::Bytes(hash.map(<[u8]>::to_vec)),
            int(now.as_micros()),
        ];
        let see = Statement::new(&self.statements.inbox_see, values).expecting(Expects::RowOrDuplicate);
        if !session.execute(&see).await?.duplicate {
            return Ok(Sighting { done: false, hash_differs: false });
        }
        let Some(record) = self.by_key(session, key).await? else {
            return Ok(Sighting { done: false, hash_differs: false });
        };
        self.touch(session, &record, hash, now).await?;
        let stored = record.message.as_ref().ok().and_then(|message| message.hash());
        let hash_differs = stored.zip(hash).is_some_and(|(stored, arrived)| stored != arrived);
        Ok(Sighting { done: record.state() == State::Done, hash_differs })
    }

    pub(crate) async fn put(
        &self,
        session: &mut impl Session,
        incoming: &Incoming,
        mode: PutMode,
        now: Timestamp,
    ) -> Result<Arrival> {
        let insert = Statement::new(&self.statements.inbox_insert, Self::arrival(incoming, now));
        if !session.execute(&insert.expecting(Expects::RowOrDuplicate)).await?.duplicate {
            return Ok(Arrival::First);
        }
        let Some(mut record) = self.by_key(session, &incoming.key).await? else { return Ok(Arrival::First) };
        let (was, claim_no) = (record.state(), record.work.claim_no);
        let arrival = record.put(incoming, mode);
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
        mark: &Mark,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(mut record) = self.by_key(session, key).await? else { return Ok(false) };
        let (was, claim_no) = (record.state(), record.work.claim_no);
        if !record.apply_mark(mark, now) {
            return Ok(false);
        }
        self.save(session, Queue::Inbox, &record, was, claim_no, now).await?;
        Ok(true)
    }

    pub(super) async fn by_key(&self, session: &mut impl Session, key: &InboxKey) -> Result<Option<Record>> {
        let values = vec![text(Some(key.source())), text(Some(key.message_id()))];
        let select = Statement::new(&self.statements.inbox.load_key, values);
        Ok(session.query(&select, |row| read_record(row, Queue::Inbox)).await?.pop())
    }

    async fn touch(
        &self,
        session: &mut impl Session,
        record: &Record,
        hash: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<()> {
        let values = vec![int(record.seq), int(now.as_micros()), Value::Bytes(hash.map(<[u8]>::to_vec))];
        session.execute(&Statement::new(&self.statements.inbox_touch, values)).await?;
        Ok(())
    }

    fn content(&self, seq: i64, incoming: &Incoming, now: Timestamp) -> Statement {
        let values = vec![
            int(seq),
            text(Some(incoming.kind.as_str())),
            text(Some(&incoming.topic)),
            text(Some(&incoming.payload)),
            Value::Bytes(incoming.hash.clone()),
            Value::Text(headers_json(&incoming.headers)),
            text(incoming.correlation_id.as_deref()),
            int(now.as_micros()),
            opt(incoming.max_attempts.map(i64::from)),
        ];
        Statement::new(&self.statements.inbox_content, values)
    }
}
