//! Cancels messages in memory.

use super::table::Table;
use crate::queue::State;
use crate::store::{Act, Cancelled, Deed, LaneStep, LaneStepped, Operator, Record, Stop, Target};
use crate::support::clock::Timestamp;

impl Table {
    pub(super) fn cancel(&mut self, target: &Target, deed: Option<Deed>, now: Timestamp) -> Cancelled {
        let found = match target {
            Target::Row(seq) => self.rows.get(seq).map(|record| record.seq),
            Target::Outgoing(id) => self.by_work_item(*id).map(|record| record.seq),
            Target::Arrived(key) => self.by_key(key).map(|record| record.seq),
        };
        let Some(seq) = found else { return Cancelled::Unknown };
        let (cancelled, is_new) = self.cancel_row(seq, &Deed::cancelling(deed.as_ref()), now);
        self.note_cancelled(is_new.into(), deed, now);
        cancelled
    }

    pub(super) fn cancel_lane(&mut self, step: &LaneStep, deed: Option<Deed>, now: Timestamp) -> LaneStepped {
        let by = Deed::cancelling(deed.as_ref());
        let in_lane = self.members(&step.lane, step.after, step.limit);
        let (mut stepped, mut new) = (LaneStepped::default(), 0);
        for (_, seq) in &in_lane {
            let (cancelled, is_new) = self.cancel_row(*seq, &by, now);
            stepped.cancelled.count(cancelled);
            new += u64::from(is_new);
        }
        stepped.last = in_lane.last().filter(|_| in_lane.len() >= step.limit).map(|(no, _)| *no);
        self.note_cancelled(new, deed, now);
        stepped
    }

    /// Returns what became of it, and whether that is new.
    fn cancel_row(&mut self, seq: i64, by: &Operator, now: Timestamp) -> (Cancelled, bool) {
        let Some(record) = self.rows.get_mut(&seq) else { return (Cancelled::Unknown, false) };
        match (record.state(), record.lease()) {
            (State::Ready, _) | (State::Leased, None) => {
                record.cancel(by.clone(), now);
                (Cancelled::Waiting, true)
            }
            (State::Leased, Some(lease)) => {
                let (stop, asked) = ((seq, lease.claim_no), self.stops.len());
                self.stops.entry(stop).or_insert_with(|| by.clone());
                (Cancelled::Asked, self.stops.len() > asked)
            }
            _ => (Cancelled::TooLate, false),
        }
    }

    fn note_cancelled(&mut self, messages: u64, deed: Option<Deed>, now: Timestamp) {
        if let Some(deed) = deed.filter(|_| messages > 0) {
            self.note((Act::Cancel, messages), deed, now);
        }
    }

    pub(super) fn stops(&self) -> Vec<Stop> {
        let is_held = |seq: i64, claim_no: i64| {
            let holds = |record: &Record| record.state() == State::Leased && record.work.claim_no == claim_no;
            self.rows.get(&seq).is_some_and(holds)
        };
        let stops = self.stops.keys();
        stops.map(|&(seq, claim_no)| Stop { seq, claim_no, is_held: is_held(seq, claim_no) }).collect()
    }

    pub(super) fn sweep_stops(&mut self) {
        for stop in self.stops().into_iter().filter(|stop| !stop.is_held) {
            self.stops.remove(&(stop.seq, stop.claim_no));
        }
    }
}
