//! Cancels messages. One that waits is dismissed. One in progress is asked to stop: that is a row beside it, which its
//! worker reads about every second, and which decides what a failed attempt comes to. An ack never looks there.

use std::collections::HashMap;

use super::rows::{int, number, read_record, row_count, text, uuid};
use super::write_back::{Change, moved_meanwhile};
use super::{Session, SqlVerbs};
use crate::queue::{Queue, State};
use crate::sql::Row;
use crate::store::{Act, Cancelled, Deed, LaneStep, LaneStepped, Operator, Record, Stop, Target};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// Who asked, by the number of the message and its claim.
pub(super) type Stops = HashMap<(i64, i64), Operator>;

impl SqlVerbs {
    pub(crate) async fn cancel(
        &self,
        session: &mut impl Session,
        queue: Queue,
        target: &Target,
        deed: Option<&Deed>,
        now: Timestamp,
    ) -> Result<Cancelled> {
        let statements = self.statements.of(queue);
        let found = match target {
            Target::Row(seq) => self.bare(session, queue, &[*seq]).await?,
            Target::Outgoing(id) => {
                let select = statements.load_key.with(vec![uuid(Some(id.as_uuid()))]);
                self.load(session, queue, &select).await?
            }
            Target::Arrived(key) => {
                let select = statements.load_key.with(super::inbox::key_values(key));
                self.load(session, queue, &select).await?
            }
        };
        let Some(record) = found.first() else { return Ok(Cancelled::Unknown) };
        let (cancelled, is_new) = self.cancel_row(session, queue, record, &Deed::cancelling(deed), now).await?;
        self.note_cancelled(session, queue, is_new.into(), deed, now).await?;
        Ok(cancelled)
    }

    pub(crate) async fn cancel_lane(
        &self,
        session: &mut impl Session,
        queue: Queue,
        step: &LaneStep,
        deed: Option<&Deed>,
        now: Timestamp,
    ) -> Result<LaneStepped> {
        let values = vec![text(Some(&step.lane)), int(step.after), int(row_count(step.limit))];
        let select = self.statements.of(queue).lane_rows.with(values);
        let places = session.query(&select, |row| Ok((number(row, 0)?, number(row, 1)?))).await?;
        let seqs: Vec<i64> = places.iter().map(|(_, seq)| *seq).collect();
        let (mut stepped, mut new) = (LaneStepped::default(), 0);
        // In the order of their numbers, like everybody who settles several.
        for record in self.bare(session, queue, &seqs).await? {
            let (cancelled, is_new) = self.cancel_row(session, queue, &record, &Deed::cancelling(deed), now).await?;
            stepped.cancelled.count(cancelled);
            new += u64::from(is_new);
        }
        stepped.last = places.last().filter(|_| places.len() >= step.limit).map(|(no, _)| *no);
        self.note_cancelled(session, queue, new, deed, now).await?;
        Ok(stepped)
    }

    async fn bare(&self, session: &mut impl Session, queue: Queue, seqs: &[i64]) -> Result<Vec<Record>> {
        let sql = &self.statements.of(queue).stops.rows;
        let mut found = self.by_number(session, sql, seqs, |row| read_record(row, queue)).await?;
        found.sort_unstable_by_key(|record| record.seq);
        Ok(found)
    }

    /// Returns what became of it, and whether that is new.
    async fn cancel_row(
        &self,
        session: &mut impl Session,
        queue: Queue,
        record: &Record,
        by: &Operator,
        now: Timestamp,
    ) -> Result<(Cancelled, bool)> {
        match (record.state(), record.lease()) {
            // A lease without an owner is void: its worker can settle nothing.
            (State::Ready, _) | (State::Leased, None) => {
                let found = (record.seq, record.work.claim_no, record.state());
                let dismissed = session.execute(&self.dismissing(queue, found, by, now)).await?.rows;
                if dismissed == 0 { Err(moved_meanwhile()) } else { Ok((Cancelled::Waiting, true)) }
            }
            (State::Leased, Some(lease)) => {
                // Whoever settles it has locked it, or waits until this is stored.
                if !self.is_held(session, queue, &lease).await? {
                    return Err(moved_meanwhile());
                }
                if self.stops_of(session, queue, &[record.seq]).await?.contains_key(&(record.seq, lease.claim_no)) {
                    return Ok((Cancelled::Asked, false));
                }
                let (who, why) = (text(Some(by.who())), text(by.why()));
                let values = vec![int(record.seq), int(lease.claim_no), int(now.as_micros()), who, why];
                session.execute(&self.statements.of(queue).stops.add.with(values)).await?;
                Ok((Cancelled::Asked, true))
            }
            // The first try succeeded, and only its answer was lost.
            _ if session.in_doubt() && record.dismissal() == Some(by) => Ok((Cancelled::Waiting, false)),
            _ => Ok((Cancelled::TooLate, false)),
        }
    }

    async fn note_cancelled(
        &self,
        session: &mut impl Session,
        queue: Queue,
        messages: u64,
        deed: Option<&Deed>,
        now: Timestamp,
    ) -> Result<()> {
        match deed.filter(|_| messages > 0) {
            Some(deed) => self.note(session, queue, (Act::Cancel, messages), deed, now).await,
            None => Ok(()),
        }
    }

    /// Returns which of these messages are to stop.
    pub(super) async fn stops_of(&self, session: &mut impl Session, queue: Queue, seqs: &[i64]) -> Result<Stops> {
        let sql = &self.statements.of(queue).stops.of;
        let read = |row: &dyn Row| {
            let who = Operator::dismissed(row.text(2)?.unwrap_or_default(), row.text(3)?);
            Ok(((number(row, 0)?, number(row, 1)?), who))
        };
        Ok(self.by_number(session, sql, seqs, read).await?.into_iter().collect())
    }

    /// Dismisses what was to stop and waits again now that its claim has ended.
    pub(super) async fn dismiss_stopped(
        &self,
        session: &mut impl Session,
        queue: Queue,
        (changes, stops): (&[Change], &Stops),
        now: Timestamp,
    ) -> Result<()> {
        for Change { record, claim_no, .. } in changes {
            let Some(by) = stops.get(&(record.seq, *claim_no)) else { continue };
            let found = (record.seq, *claim_no, record.state());
            if session.execute(&self.dismissing(queue, found, by, now)).await?.rows == 0 {
                return Err(moved_meanwhile());
            }
            self.forget_stop(session, queue, record.seq, *claim_no).await?;
        }
        Ok(())
    }

    async fn forget_stop(&self, session: &mut impl Session, queue: Queue, seq: i64, claim_no: i64) -> Result<()> {
        let remove = self.statements.of(queue).stops.remove.with(vec![int(seq), int(claim_no)]);
        session.execute(&remove).await?;
        Ok(())
    }

    pub(crate) async fn stops(&self, session: &mut impl Session, queue: Queue) -> Result<Vec<Stop>> {
        let list = self.statements.of(queue).stops.list.with(Vec::new());
        let read = |row: &dyn Row| {
            let is_held = row.int(2)? == Some(State::Leased.code());
            Ok(Stop { seq: number(row, 0)?, claim_no: number(row, 1)?, is_held })
        };
        session.query(&list, read).await
    }

    /// Forgets about those that are no longer in progress: an ack was faster.
    pub(crate) async fn sweep_stops(&self, session: &mut impl Session, queue: Queue) -> Result<()> {
        for stop in self.stops(session, queue).await?.into_iter().filter(|stop| !stop.is_held) {
            self.forget_stop(session, queue, stop.seq, stop.claim_no).await?;
        }
        Ok(())
    }
}
