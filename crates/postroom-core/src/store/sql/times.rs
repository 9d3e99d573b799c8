//! Times from a wrong clock: how verbs avoid them, and how rows with them are corrected.

use std::sync::atomic::{AtomicU64, Ordering};

use super::rows::{int, moment, number, row_count, time};
use super::{Session, SqlVerbs};
use crate::queue::{AHEAD, Queue, State, Work};
use crate::sql::Row;
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::Result;

/// The number of rows per transaction.
pub(crate) const STEP_ROWS: usize = 1000;

/// Where a scan of the rows that wait for a later time continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    state: State,
    visible_at: Timestamp,
    seq: i64,
}

/// The result of one step, and where the next one starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Corrected {
    pub(crate) rows: u64,
    pub(crate) next: Option<Place>,
}

impl Place {
    /// Starts with the leases, because there are few.
    fn first(visible_at: Timestamp) -> Self {
        Self { state: State::Leased, visible_at, seq: i64::MIN }
    }

    /// Returns the place after the scanned rows, or `None` if those were all.
    fn after(&self, looked: &[(Self, Work)], from: Timestamp) -> Option<Self> {
        match (looked.last(), self.state) {
            (Some((last, _)), _) if looked.len() >= STEP_ROWS => Some(*last),
            (_, State::Leased) => Some(Self { state: State::Ready, ..Self::first(from) }),
            _ => None,
        }
    }
}

impl SqlVerbs {
    /// Uses this clock.
    pub(crate) fn by(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Returns the time at which leases, times to live and retention begin.
    pub(super) fn late(&self, now: Timestamp) -> Timestamp {
        self.clock.doubt().late(now)
    }

    /// Returns the time by which leases end, and messages expire or are deleted.
    pub(super) fn early(&self, now: Timestamp) -> Timestamp {
        self.clock.doubt().early(now)
    }

    /// Returns whether rows may have times of a wrong clock: they were not checked since the store was opened, or since
    /// its clock jumped.
    pub(crate) fn is_time_check_due(&self, queue: Queue) -> bool {
        self.checked(queue).load(Ordering::SeqCst) <= self.clock.jumps_accepted()
    }

    /// Checks some rows after `from` that wait for a later time, and corrects those that wait only because a clock was
    /// wrong.
    pub(crate) async fn correct_times(
        &self,
        session: &mut impl Session,
        queue: Queue,
        from: Option<Place>,
        now: Timestamp,
    ) -> Result<Corrected> {
        let (now, jumps) = (self.late(now), self.clock.jumps_accepted());
        let begin = now.plus(AHEAD);
        let place = from.unwrap_or_else(|| Place::first(begin));
        let looked = self.ahead(session, queue, &place).await?;
        let mut corrected = Corrected { rows: 0, next: place.after(&looked, begin) };
        for (place, mut work) in looked {
            if !work.correct_times(now) {
                continue;
            }
            if work.state == State::Ready {
                self.scan_start(queue).lower(work.visible_at());
                self.topic_scan_start.lower(queue, work.visible_at());
            }
            let values = vec![
                int(place.seq),
                int(work.claim_no),
                int(work.state.code()),
                time(work.visible_at()),
                time(work.next_attempt_at),
                time(work.locked_until),
                time(work.last_attempt_at),
                int(work.created_at.as_micros()),
                int(place.visible_at.as_micros()),
            ];
            corrected.rows += session.execute(&self.statements.of(queue).ahead_set.with(values)).await?.rows;
        }
        if corrected.next.is_none() {
            self.checked(queue).store(jumps + 1, Ordering::SeqCst);
        }
        Ok(corrected)
    }

    /// Counts, among the first rows that wait for a later time, those that wait because a clock was wrong.
    pub(crate) async fn count_ahead(&self, session: &mut impl Session, now: Timestamp) -> Result<usize> {
        let mut count = 0;
        for queue in [Queue::Outbox, Queue::Inbox] {
            for state in [State::Leased, State::Ready] {
                let place = Place { state, ..Place::first(now.plus(AHEAD)) };
                let looked = self.ahead(session, queue, &place).await?;
                count += looked.into_iter().filter_map(|(_, mut work)| work.correct_times(now).then_some(())).count();
            }
        }
        Ok(count)
    }

    async fn ahead(&self, session: &mut impl Session, queue: Queue, from: &Place) -> Result<Vec<(Place, Work)>> {
        let state = from.state;
        let Some(sql) = self.statements.of(queue).in_state(state) else { return Ok(Vec::new()) };
        let values = vec![int(from.visible_at.as_micros()), int(from.seq), int(row_count(STEP_ROWS))];
        session.query(&sql.ahead.with(values), move |row| read_times(row, state)).await
    }

    fn checked(&self, queue: Queue) -> &AtomicU64 {
        match queue {
            Queue::Outbox => &self.times_checked[0],
            Queue::Inbox => &self.times_checked[1],
        }
    }
}

/// Reads the place of a row, and its times.
fn read_times(row: &dyn Row, state: State) -> Result<(Place, Work)> {
    let mut work = Work::new(state, Timestamp::from_micros(number(row, 2)?));
    work.claim_no = number(row, 1)?;
    (work.due_at, work.next_attempt_at) = (moment(row, 3)?, moment(row, 4)?);
    (work.locked_until, work.last_attempt_at) = (moment(row, 5)?, moment(row, 6)?);
    Ok((Place { state, visible_at: Timestamp::from_micros(number(row, 7)?), seq: number(row, 0)? }, work))
}
