//! Lanes in memory.

use std::collections::{BTreeMap, HashSet};

use super::table::Table;
use crate::queue::{LaneRule, OnDead, State};
use crate::store::{Operator, Record};

/// The messages of lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The numbers of messages in their lanes, which are their order there. Those that have left have none.
    numbers: BTreeMap<i64, i64>,
    last: i64,
    /// Whether a message with a lane has ever come.
    pub(super) are_used: bool,
}

/// The messages that have the turn in their lanes.
pub(super) struct Turns(HashSet<i64>);

impl Turns {
    /// Returns whether a ready message may be handled, as far as its lane goes.
    pub(super) fn has(&self, record: &Record) -> bool {
        lane_of(record).is_none() || self.0.contains(&record.seq)
    }
}

fn lane_of(record: &Record) -> Option<&str> {
    record.message.as_ref().ok()?.lane.as_deref()
}

impl Table {
    /// Gives each message that came to its lane, or came back, the next number there. Those that have ended leave.
    pub(super) fn order_lanes(&mut self) {
        if !self.lanes.are_used {
            return;
        }
        for record in self.rows.values() {
            match record.state() {
                State::Ready if lane_of(record).is_some() => {
                    self.lanes.numbers.entry(record.seq).or_insert_with(|| {
                        self.lanes.last += 1;
                        self.lanes.last
                    });
                }
                State::Ready | State::Leased | State::Dead => {}
                _ => drop(self.lanes.numbers.remove(&record.seq)),
            }
        }
        self.lanes.numbers.retain(|seq, _| self.rows.contains_key(seq));
        self.pass_the_dead();
    }

    pub(super) fn leave_lane(&mut self, seq: i64) {
        self.lanes.numbers.remove(&seq);
    }

    /// Returns the messages of a lane that wait or are in progress, with their numbers, behind one of them.
    pub(super) fn members(&self, lane: &str, after: i64, limit: usize) -> Vec<(i64, i64)> {
        let is_member = |seq: &i64| {
            let record = self.rows.get(seq).filter(|record| matches!(record.state(), State::Ready | State::Leased));
            record.is_some_and(|record| lane_of(record) == Some(lane))
        };
        let behind = self.lanes.numbers.iter().filter(|(seq, no)| **no > after && is_member(seq));
        let mut members: Vec<_> = behind.map(|(seq, no)| (*no, *seq)).collect();
        members.sort_unstable();
        members.truncate(limit);
        members
    }

    /// Lets dead messages leave their lanes, and drops what waits behind them, where that is set.
    fn pass_the_dead(&mut self) {
        let (mut passed, mut dropped) = (Vec::new(), Vec::new());
        for (lane, mut records) in self.by_lane() {
            let mut at = 0;
            while let Some(record) = records.get(at) {
                let rule = self.rule_of(lane, &records);
                if record.state() != State::Dead || rule.on_dead == OnDead::Block {
                    at += 1;
                    continue;
                }
                let died_at = record.processed_at();
                passed.push(record.seq);
                if let (OnDead::Newest, Some(died_at)) = (rule.on_dead, died_at) {
                    let waits = records.iter().skip(rule.places).filter(|record| record.state() == State::Ready);
                    let mut waits: Vec<_> = waits.map(|record| record.seq).collect();
                    waits.pop();
                    dropped.extend(waits.into_iter().map(|seq| (seq, died_at)));
                }
                records
                    .retain(|one| passed.last() != Some(&one.seq) && !dropped.iter().any(|(seq, _)| *seq == one.seq));
            }
        }
        for (seq, at) in dropped {
            if let Some(record) = self.rows.get_mut(&seq) {
                record.work.dismiss(at);
                record.dismissal = Some(Box::new(Operator::superseding()));
                record.refresh();
            }
            self.leave_lane(seq);
        }
        passed.into_iter().for_each(|seq| self.leave_lane(seq));
    }

    /// Returns the messages of each lane, in order.
    pub(super) fn by_lane(&self) -> Vec<(&str, Vec<&Record>)> {
        let mut lanes: BTreeMap<&str, Vec<(i64, &Record)>> = BTreeMap::new();
        for (seq, number) in &self.lanes.numbers {
            let Some(record) = self.rows.get(seq) else { continue };
            lanes.entry(lane_of(record).unwrap_or_default()).or_default().push((*number, record));
        }
        let ordered = lanes.into_iter().map(|(lane, mut numbered)| {
            numbered.sort_unstable_by_key(|(number, _)| *number);
            (lane, numbered.into_iter().map(|(_, record)| record).collect())
        });
        ordered.collect()
    }

    /// Returns what is set for a lane with these messages.
    fn rule_of(&self, lane: &str, records: &[&Record]) -> LaneRule {
        let first = records.first().and_then(|first| first.message.as_ref().ok());
        LaneRule::of(self.set_rules(), lane, first.map_or("", |first| first.topic.as_str()))
    }

    /// Returns the messages that have the turn: the first of each lane, as many as may be in progress at once, and none
    /// behind a dead one.
    pub(super) fn turns(&self) -> Turns {
        let firsts = self.by_lane().into_iter().flat_map(|(lane, records)| {
            let places = self.rule_of(lane, &records).places;
            records.into_iter().take(places).take_while(|record| record.state() != State::Dead)
        });
        Turns(firsts.map(|record| record.seq).collect())
    }
}
