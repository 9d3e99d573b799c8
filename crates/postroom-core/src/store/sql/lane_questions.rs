//! What operators ask about lanes. Each statement reads a bounded number of rows, and each lane is one statement more.

use std::collections::{HashMap, HashSet};

use super::questions::{counted, read_id};
use super::rows::{count, int, moment, number, row_count, text};
use super::{Session, SqlVerbs};
use crate::queue::{Queue, State};
use crate::sql::Row;
use crate::store::{FirstInLane, Lane, LanePlace, Lanes};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    pub(crate) async fn lanes(&self, session: &mut impl Session, queue: Queue, limit: usize) -> Result<Lanes> {
        if !self.keeps_lanes() {
            return Ok(Lanes::default());
        }
        let (statements, looked_at) = (&self.statements.of(queue).questions, vec![int(row_count(Lanes::LOOKED_AT))]);
        let at_ends = session.query(&statements.lanes_at_ends.with(looked_at.clone()), |row| row.text(0)).await?;
        let may_be_more = at_ends.len() >= 2 * Lanes::LOOKED_AT;
        let ranked = most_frequent(at_ends.into_iter().flatten());
        let lanes = ranked.len() as u64;
        let mut deepest = self.lanes_named(session, queue, ranked.into_iter().take(limit)).await?;
        deepest.sort_by(|one, other| other.messages.cmp(&one.messages).then_with(|| one.name.cmp(&other.name)));
        let read = |row: &dyn Row| Ok((moment(row, 1)?, number(row, 2)?, row.text(0)?.unwrap_or_default()));
        let mut dead = session.query(&statements.lanes_of_dead.with(looked_at), read).await?;
        dead.sort_unstable();
        let mut known = HashSet::new();
        dead.retain(|(_, _, name)| known.insert(name.clone()));
        let blocked_lanes = dead.len() as u64;
        let dead = dead.into_iter().map(|(_, _, name)| name).take(limit);
        let blocked = self.lanes_named(session, queue, dead).await?;
        Ok(Lanes { lanes, may_be_more, blocked_lanes, deepest, blocked })
    }

    pub(crate) async fn lane_of(
        &self,
        session: &mut impl Session,
        queue: Queue,
        seq: i64,
    ) -> Result<Option<LanePlace>> {
        if !self.keeps_lanes() {
            return Ok(None);
        }
        let statements = &self.statements.of(queue).questions;
        let read = |row: &dyn Row| Ok((row.text(0)?.unwrap_or_default(), number(row, 1)?));
        let Some((name, no)) = session.query(&statements.lane_row.with(vec![int(seq)]), read).await?.pop() else {
            return Ok(None);
        };
        let values = vec![text(Some(&name)), int(row_count(Lane::COUNTED)), int(no)];
        let ahead = session.query(&statements.lane_ahead.with(values), |row| counted(row, 0)).await?;
        let lane = self.lanes_named(session, queue, std::iter::once(name)).await?.pop();
        Ok(lane.map(|lane| LanePlace { lane, ahead: ahead.into_iter().next().unwrap_or(0) }))
    }

    /// Returns these lanes, except those that have ended meanwhile.
    async fn lanes_named(
        &self,
        session: &mut impl Session,
        queue: Queue,
        names: impl Iterator<Item = String> + Send,
    ) -> Result<Vec<Lane>> {
        let statements = &self.statements.of(queue).questions;
        let (mut depths, mut seqs) = (Vec::new(), Vec::new());
        for name in names {
            let values = vec![text(Some(&name)), int(row_count(Lane::COUNTED))];
            let read = |row: &dyn Row| Ok((counted(row, 0)?, row.int(1)?));
            if let Some((messages, Some(seq))) = session.query(&statements.lane_depth.with(values), read).await?.pop() {
                depths.push((name, messages, seq));
                seqs.push(seq);
            }
        }
        let first = self.by_number(session, &statements.lane_first, &seqs, |row| read_first(row, queue)).await?;
        let lane = |(name, messages, seq)| {
            let first = first.iter().find(|first| first.seq == seq)?;
            let is_there = matches!(first.state, State::Ready | State::Leased | State::Dead);
            is_there.then(|| Lane { name, messages, first: first.clone() })
        };
        Ok(depths.into_iter().filter_map(lane).collect())
    }
}

/// Returns the names, the most frequent first.
fn most_frequent(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut ranked: Vec<_> = counts.into_iter().collect();
    ranked.sort_unstable_by(|(one, often), (other, rarer)| rarer.cmp(often).then_with(|| one.cmp(other)));
    ranked.into_iter().map(|(name, _)| name).collect()
}

/// Unreadable values count as missing, so that they do not hide the others.
fn read_first(row: &dyn Row, queue: Queue) -> Result<FirstInLane> {
    Ok(FirstInLane {
        seq: number(row, 0)?,
        id: read_id(row, queue, 1),
        topic: row.text(5).ok().flatten().unwrap_or_default(),
        party: row.text(6).unwrap_or(None),
        state: row.int(7)?.and_then(State::from_code).unwrap_or(State::Done),
        created_at: Timestamp::from_micros(number(row, 8)?),
        visible_at: moment(row, 9)?,
        attempts: count(row, 10).ok().flatten().unwrap_or(0),
    })
}
