//! Batches of rows, in the form that the database takes.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::rows::{int, number, outbox_row, text};
use super::write_back::moved_meanwhile;
use super::{Session, SqlVerbs};
use crate::message::NewMessage;
use crate::queue::{Lease, Queue};
use crate::sql::plans::{Extend, InsertMany, Runs};
use crate::sql::text::{ARRAY_BYTES_MAX, ARRAY_ROWS_MAX, SMALL, SqlTemplate, TEXT_BYTES_MAX};
use crate::sql::{Expects, Row, Statement, Value};
use crate::store::unique::{self, OnSession};
use crate::store::{Identity, News, Stored};
use crate::support::clock::Timestamp;
use crate::support::error::{ErrorKind, Result};

impl SqlVerbs {
    pub(crate) async fn enqueue(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Stored>> {
        let (mut stored, mut rest) = (Vec::with_capacity(messages.len()), messages);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.rows_that_fit(rest));
            rest = after;
            if chunk.iter().all(|message| message.unique.is_none())
                && let Some(new) = self.insert_many(session, chunk, now).await?
            {
                stored.extend(new);
                continue;
            }
            for message in chunk {
                let insert = self.insert(message, now)?;
                stored.push(unique::store(&mut OnSession(session), message, &insert).await?);
            }
        }
        if session.in_doubt() {
            let its_own =
                |(one, message): &(&mut Stored, &NewMessage)| one.duplicate && one.id == message.work_item_id();
            for (stored, message) in stored.iter_mut().zip(messages).filter(its_own) {
                // It is no duplicate if an earlier try stored it, whose commit was not answered.
                let found = self.find(session, &Identity::Outbox(stored.id.as_uuid())).await?;
                stored.duplicate = !found.iter().any(|row| row.work.created_at == now);
                if stored.is_new() {
                    stored.replaced = unique::replaced(&mut OnSession(session), &self.insert(message, now)?).await?;
                }
            }
        }
        Ok(stored)
    }

    /// Stores messages with one statement, outside any other transaction. Returns `None` if that is not possible;
    /// nothing is stored then.
    pub(crate) async fn autocommit_enqueue(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        news: Option<&News>,
        now: Timestamp,
    ) -> Result<Option<Vec<Stored>>> {
        let is_unique = |message: &NewMessage| message.unique.is_some();
        if self.rows_that_fit(messages) != messages.len() || messages.iter().any(is_unique) {
            return Ok(None);
        }
        messages.iter().for_each(|message| self.notice_new(message, now));
        if let InsertMany::Answered { all_new: Some(all_new), all_told, .. } = &self.statements.insert_many
            && messages.iter().all(|message| !message.has_given_id)
        {
            let rows: Vec<_> = messages.iter().map(|message| outbox_row(message, now, self.late(now))).collect();
            let told = all_told.as_ref().zip(news);
            let insert = match told {
                Some((sql, news)) => sql.with_rows(rows, &[text(Some(&news.channel)), text(Some(&news.text))]),
                None => all_new.with_rows(rows, &[]),
            };
            let done = match session.execute(&insert.expecting(Expects::AllNew)).await {
                // The server may have no room for notifications. Without them, the others poll.
                Err(error) if told.is_some() && error.kind() == ErrorKind::Database => return Ok(None),
                done => done?,
            };
            if !done.duplicate {
                told.iter().for_each(|(_, news)| news.is_told.store(true, Ordering::SeqCst));
                let new = |message: &NewMessage| Stored::new(message.work_item_id(), false);
                return Ok(Some(messages.iter().map(new).collect()));
            }
        }
        self.insert_many(session, messages, now).await
    }

    /// Stores messages with one statement. Returns `None` if they must be stored one by one, because the database
    /// requires it or because one of them exists already. Nothing is stored then.
    async fn insert_many(
        &self,
        session: &mut impl Session,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Option<Vec<Stored>>> {
        if matches!(self.statements.insert_many, InsertMany::Each) {
            return Ok(None);
        }
        messages.iter().for_each(|message| self.notice_new(message, now));
        // Rows are compared with stored rows, but not with each other.
        let mut known = HashSet::new();
        let firsts = messages.iter().filter(|message| known.insert(message.work_item_id()));
        let mut rows: Vec<_> = firsts.map(|message| outbox_row(message, now, self.late(now))).collect();
        let insert =
            |sql: &SqlTemplate, rows: Vec<Vec<Value>>| sql.with_rows(rows, &[]).expecting(Expects::RowOrDuplicate);
        let mut new: HashSet<_> = match &self.statements.insert_many {
            InsertMany::Each => return Ok(None),
            InsertMany::AllOrNone { .. } if rows.len() < messages.len() => return Ok(None),
            // The statement for one message says whether it exists.
            InsertMany::AllOrNone { .. } if messages.len() == 1 => {
                let duplicate = session.execute(&self.insert(&messages[0], now)?).await?.duplicate;
                return Ok(Some(vec![Stored::new(messages[0].work_item_id(), duplicate)]));
            }
            InsertMany::AllOrNone { sql, .. } => {
                if session.execute(&insert(sql, rows)).await?.duplicate {
                    return Ok(None);
                }
                messages.iter().map(|message| Some(message.work_item_id().as_uuid())).collect()
            }
            InsertMany::Answered { sql, null, .. } => {
                // A blank is no valid name, header or correlation id, so it can stand for null. The text must not
                // depend on which values are null.
                for value in rows.iter_mut().flatten().filter(|value| null.is_some() && **value == Value::Text(None)) {
                    *value = text(*null);
                }
                session.query(&insert(sql, rows), |row| row.uuid(0)).await?.into_iter().collect()
            }
        };
        let stored = messages.iter().map(|message| {
            let id = message.work_item_id();
            // The second of two messages with the same id is a duplicate too.
            Stored::new(id, !new.remove(&Some(id.as_uuid())))
        });
        Ok(Some(stored.collect()))
    }

    /// Returns the number of messages that fit into one statement.
    pub(crate) fn rows_that_fit(&self, messages: &[NewMessage]) -> usize {
        let within = |bytes_max: usize| {
            let mut bytes = 0;
            let fit = messages.iter().take_while(move |message| {
                bytes += message.payload.len();
                bytes <= bytes_max
            });
            fit.count()
        };
        let sizes = match &self.statements.insert_many {
            InsertMany::Each => return messages.len(),
            InsertMany::Answered { sizes, .. } | InsertMany::AllOrNone { sizes, .. } => *sizes,
        };
        if sizes.is_empty() {
            return within(ARRAY_BYTES_MAX).clamp(1, ARRAY_ROWS_MAX);
        }
        let rows = within(TEXT_BYTES_MAX);
        sizes.iter().copied().find(|size| *size <= rows).unwrap_or(rows.clamp(1, SMALL))
    }

    /// Acknowledges many messages. Returns how many leases were held.
    pub(crate) async fn ack_many(
        &self,
        session: &mut impl Session,
        queue: Queue,
        acks: &[(&Lease, Option<&str>)],
        now: Timestamp,
    ) -> Result<u64> {
        let (statements, at) = (self.statements.of(queue), [int(self.late(now).as_micros())]);
        let row = |(lease, response): &(&Lease, Option<&str>)| [Self::fence(lease), vec![text(*response)]].concat();
        let many = statements.many.as_ref().map(|many| &many.ack_many);
        // Some servers change text inside JSON, so an ack with an answer has its own statement.
        let goes_alone = |ack: &&(_, Option<&str>)| ack.1.is_some() && many.is_some_and(SqlTemplate::takes_json);
        let (alone, together): (Vec<_>, Vec<_>) = acks.iter().partition(goes_alone);
        if let Some(runs) = &statements.runs {
            return self.ack_runs(session, queue, runs, acks, now).await;
        }
        if let (Some(sql), Some((lease, ranges))) = (&statements.ack_ranges, one_holder(acks)) {
            let values = [&at[..], &Self::fence(lease)[1..]].concat();
            let mut held = 0;
            for ack in sql.for_rows(&ranges, &values) {
                held += session.execute(&ack).await?.rows;
            }
            return Ok(held);
        }
        let [alone, together] = [alone, together].map(|acks| acks.into_iter().map(row).collect::<Vec<_>>());
        let held = self.write_rows(session, (&statements.ack, None), &alone, &at).await?;
        Ok(held + self.write_rows(session, (&statements.ack, many), &together, &at).await?)
    }

    /// Acknowledges runs of messages that are held together. `acks` are sorted by number.
    async fn ack_runs(
        &self,
        session: &mut impl Session,
        queue: Queue,
        runs: &Runs<SqlTemplate>,
        acks: &[(&Lease, Option<&str>)],
        now: Timestamp,
    ) -> Result<u64> {
        let (at, mut held) = (int(self.late(now).as_micros()), 0);
        for run in acks.chunk_by(|one, next| one.0.is_followed_by(next.0)) {
            if let [first, .., last] = run {
                let mut values = Self::fence(first.0);
                values.extend([text(None), at.clone(), int(last.0.seq)]);
                if session.execute(&runs.ack.with(values)).await?.rows > 0 {
                    for (lease, response) in run.iter().filter(|(_, response)| response.is_some()) {
                        session.execute(&runs.answered.with(vec![int(lease.seq), text(*response)])).await?;
                    }
                    held += run.len() as u64;
                    continue;
                }
            }
            for (lease, response) in run {
                let values = [Self::fence(lease), vec![text(*response), at.clone()]].concat();
                held += session.execute(&self.statements.of(queue).ack.with(values)).await?.rows;
            }
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
        let until = [int(self.late(now).plus(lease).as_micros())];
        // Use the same lock order as acks.
        let mut sorted: Vec<&Lease> = leases.iter().collect();
        sorted.sort_unstable_by_key(|lease| lease.seq);
        // Compare both, because one of two leases on the same row is over.
        let mut held = HashSet::new();
        match &self.statements.of(queue).extend {
            Extend::Each(sql) => self.extend_each(session, sql, &sorted, &until, &mut held).await?,
            Extend::Runs { run, one } => {
                for together in sorted.chunk_by(|one, next| one.is_followed_by(next)) {
                    let [first, .., last] = together else {
                        self.extend_each(session, one, together, &until, &mut held).await?;
                        continue;
                    };
                    let [_, owner, no] = &Self::fence(first)[..] else { continue };
                    let values = vec![int(first.seq), int(last.seq), owner.clone(), no.clone(), until[0].clone()];
                    match session.execute(&run.with(values)).await?.rows {
                        0 => self.extend_each(session, one, together, &until, &mut held).await?,
                        _ => held.extend(together.iter().map(|lease| (lease.seq, lease.claim_no))),
                    }
                }
            }
            Extend::Answered(sql) => {
                let rows: Vec<_> = sorted.into_iter().map(Self::fence).collect();
                for extend in sql.for_rows(&rows, &until) {
                    let read = |row: &dyn Row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)? == 1));
                    for (seq, claim_no, is_renewed) in session.query(&extend, read).await? {
                        if !is_renewed {
                            return Err(moved_meanwhile());
                        }
                        held.insert((seq, claim_no));
                    }
                }
            }
        }
        Ok(leases.iter().map(|lease| held.contains(&(lease.seq, lease.claim_no))).collect())
    }

    async fn extend_each(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        leases: &[&Lease],
        until: &[Value],
        held: &mut HashSet<(i64, i64)>,
    ) -> Result<()> {
        for lease in leases {
            let extend = sql.with([&Self::fence(lease)[..], until].concat());
            if session.execute(&extend).await?.rows > 0 {
                held.insert((lease.seq, lease.claim_no));
            }
        }
        Ok(())
    }

    /// Writes rows with a statement for one row, or with one for many if there is one. Returns how many changed.
    pub(super) async fn write_rows(
        &self,
        session: &mut impl Session,
        sql: (&SqlTemplate, Option<&SqlTemplate>),
        rows: &[Vec<Value>],
        values: &[Value],
    ) -> Result<u64> {
        let mut changed = 0;
        for statement in for_rows(sql, rows, values) {
            changed += session.execute(&statement).await?.rows;
        }
        Ok(changed)
    }

    /// Returns the existing rows with these numbers, in any order.
    pub(super) async fn by_number<T: Send>(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        seqs: &[i64],
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let (rows, mut found) = (seqs.iter().map(|seq| vec![int(*seq)]).collect::<Vec<_>>(), Vec::new());
        for statement in sql.for_rows(&rows, &[]) {
            found.extend(session.query(&statement, &mut read).await?);
        }
        Ok(found)
    }
}

/// Returns the ranges of numbers of several messages, if one claim took all of them and none has an answer. They are
/// sorted by number.
fn one_holder<'a>(acks: &[(&'a Lease, Option<&str>)]) -> Option<(&'a Lease, Vec<Vec<Value>>)> {
    let (first, _) = acks.first().filter(|_| acks.len() > 1)?;
    let is_alike = |(lease, response): &(&Lease, Option<&str>)| {
        response.is_none() && (lease.owner, lease.claim_no) == (first.owner, first.claim_no)
    };
    let range = |range: &[(&Lease, _)]| Some(vec![int(range.first()?.0.seq), int(range.last()?.0.seq)]);
    let ranges = acks.chunk_by(|one, next| next.0.seq <= one.0.seq + 1).filter_map(range);
    acks.iter().all(is_alike).then(|| (*first, ranges.collect()))
}

/// Returns the statements for these rows: one for each row, or one for many.
pub(super) fn for_rows(
    (one, many): (&SqlTemplate, Option<&SqlTemplate>),
    rows: &[Vec<Value>],
    values: &[Value],
) -> Vec<Statement> {
    match many {
        Some(many) if rows.len() > 1 => many.for_rows(rows, values),
        _ => rows.iter().map(|row| one.with([row, values].concat())).collect(),
    }
}
