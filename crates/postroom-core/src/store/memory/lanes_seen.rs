//! What operators see of lanes, in memory.

use std::cmp::Reverse;

use super::questions::party;
use super::table::Table;
use crate::message::Message;
use crate::store::{FirstInLane, Lane, LanePlace, Lanes, Record};

impl Table {
    pub(super) fn lanes(&mut self, limit: usize) -> Lanes {
        self.order_lanes();
        let rows = self.by_lane();
        let mut deepest: Vec<_> = rows.iter().filter_map(|(name, rows)| Lane::of(name, rows)).collect();
        let lanes = deepest.len() as u64;
        deepest.sort_by_key(|lane| Reverse(lane.messages));
        let mut blocked: Vec<_> = deepest.iter().filter(|lane| lane.is_blocked()).cloned().collect();
        let died_at = |lane: &Lane| (self.rows.get(&lane.first.seq).and_then(Record::processed_at), lane.first.seq);
        blocked.sort_by_key(died_at);
        let blocked_lanes = blocked.len() as u64;
        deepest.truncate(limit);
        blocked.truncate(limit);
        Lanes { lanes, may_be_more: false, blocked_lanes, deepest, blocked }
    }

    pub(super) fn lane_of(&mut self, seq: i64) -> Option<LanePlace> {
        self.order_lanes();
        let (name, rows) = self.by_lane().into_iter().find(|(_, rows)| rows.iter().any(|row| row.seq == seq))?;
        let ahead = rows.iter().take_while(|row| row.seq != seq).count() as u64;
        Some(LanePlace { lane: Lane::of(name, &rows)?, ahead })
    }
}

impl Lane {
    fn of(name: &str, rows: &[&Record]) -> Option<Self> {
        Some(Self { name: name.to_owned(), messages: rows.len() as u64, first: FirstInLane::of(rows.first()?) })
    }
}

impl FirstInLane {
    fn of(record: &Record) -> Self {
        let message = record.message.as_ref().ok();
        Self {
            seq: record.seq,
            id: message.map(Message::id).unwrap_or_default(),
            topic: message.map(|message| message.topic.clone()).unwrap_or_default(),
            party: message.and_then(party),
            state: record.state(),
            created_at: record.work.created_at,
            visible_at: record.visible_at(),
            attempts: record.attempts(),
        }
    }
}
