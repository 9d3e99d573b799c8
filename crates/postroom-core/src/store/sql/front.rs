//! Claims where nobody else can write. Messages that no claim has looked at follow one another from the front on, and
//! need no row anywhere but their own. A claim reads them in order and holds those that it takes as runs of numbers. It
//! puts those that are not due into the line, and moves the front.
//!
//! A claim of some topics skips the messages of others. The front stays before the first of them. What the claim takes
//! behind it is marked as looked at. Where the next claim of the same topics goes on is remembered for a while, so that
//! it does not skip the same messages again. When a transaction is rolled back, that is forgotten. Another process may
//! have put an older file in place: the last message that a claim marked is the witness that it was not.
//!
//! The first messages of a lane have the turn there, as many as may be in progress at once: they are taken, or put into
//! the line. Those behind them wait in the lane, and have their turn when one leaves. A message is not taken behind one
//! of its lane that was skipped: then both enter the lane, with all between them.

mod looked;
mod skipped;

use std::sync::Arc;

use looked::{Candidate, Looked, PASSED_MAX};
use skipped::Onward;
pub(super) use skipped::Skipped;

use super::claim::{Taken, line_of};
use super::rows::{self, int, number, read_claimed, text, time, uuid};
use super::{Session, SqlVerbs};
use crate::message::OwnerToken;
use crate::queue::{ClaimRequest, Claimed, Claims, Queue, Ruled, Topics};
use crate::sql::Row;
use crate::sql::columns::{claimed, message};
use crate::sql::plans::{Front, Lines};
use crate::sql::text::SqlTemplate;
use crate::store::Filter;
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    /// Claims rows in a database that takes no round trips.
    pub(crate) async fn claim(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Claims> {
        let Ruled { request: within, limited, .. } = self.ruled(session, queue, request).await?;
        let Some(within) = within else { return Ok(Claims::default()) };
        let reaped = self.reap_and_expire(session, queue, request.batch, now, (true, true)).await?;
        let taken = self.claim_in_line(session, queue, &within, now, now.into()).await?;
        if taken.claimed.is_empty() && taken.rest <= now {
            return Ok(Claims { claimed: Vec::new(), next_at: Some(now), reaped });
        }
        let claims = self.or_when(session, queue, &within, (taken, now), reaped).await?;
        self.claim_limited(session, queue, (request, &limited), claims, now).await
    }

    pub(super) async fn claim_front(
        &self,
        session: &mut impl Session,
        (queue, line, front): (Queue, &Lines<SqlTemplate>, &Front<SqlTemplate>),
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Taken> {
        let mut candidates = self.waiting(session, line, request, now).await?;
        let full = candidates.get(request.batch.saturating_sub(1)).map(|last| (last.at, last.seq));
        let Onward { from, since, mut witness, lanes } = self.onward(session, (queue, front), request).await?;
        let mut looked = Looked { skipped_lanes: lanes, ..Looked::default() };
        let at = session.query(&front.at.with(Vec::new()), |row| row.int(0)).await?;
        let at = at.into_iter().flatten().next().unwrap_or(0);
        // Whether it goes on behind messages that an earlier claim skipped.
        let (is_resumed, from) = (from > at, from.max(at));
        if !request.suspects {
            self.look_ahead(session, (queue, front), request, (now, from), full, &mut looked).await?;
        }
        self.enter_lanes(session, front, &looked).await?;
        if let Some(last) = looked.behind_skipped.values().copied().max() {
            // Some of them may have the turn now, and stand in the line.
            candidates = self.waiting(session, line, request, now).await?;
            witness = Some(last);
        }
        candidates.append(&mut looked.candidates);
        candidates.sort_unstable_by_key(|candidate| (candidate.at, candidate.seq));
        let (mut taken, mut total, mut is_full) = (Vec::new(), 0_u64, false);
        for candidate in candidates {
            total = total.saturating_add(candidate.bytes);
            let fits = taken.len() < request.budget.least || total <= request.budget.bytes;
            is_full = is_full || taken.len() >= request.batch || !fits;
            match (is_full, &candidate.fresh) {
                (false, _) => taken.push(candidate),
                (true, Some(_)) => looked.passed.push(candidate.seq),
                (true, None) => {}
            }
        }
        for seq in &looked.passed {
            session.execute(&front.pass.with(vec![int(*seq)])).await?;
        }
        let fresh = taken.iter().filter(|candidate| candidate.fresh.is_some()).map(|candidate| candidate.seq);
        let left = looked.passed.iter().chain(&looked.waits).copied();
        for seq in fresh.chain(left).filter(|seq| is_resumed || looked.is_behind(*seq)) {
            session.execute(&front.mark.with(vec![int(seq)])).await?;
            witness = Some(seq);
        }
        if let (Some(topics), false) = (&request.topics, request.suspects)
            && (is_resumed || looked.skipped.is_some())
        {
            let next = looked.stopped_at.or(looked.last.map(|last| last + 1)).unwrap_or(from);
            let lanes = std::mem::take(&mut looked.skipped_lanes);
            self.skipped.remember(queue, topics, Onward { from: next, since, witness, lanes });
        }
        if !request.suspects && !is_resumed {
            let front_at = looked.skipped.map(|(first, _)| first).or(looked.stopped_at);
            session.execute(&front.advance.with(vec![rows::opt(front_at)])).await?;
        }
        let is_cut_off = looked.stopped_at.is_some() && taken.is_empty();
        let claimed = self.hold_taken(session, (queue, front), request, taken, now).await?;
        let rest = if is_cut_off { now } else { now.plus(super::claim::TICK) };
        Ok(Taken { claimed, rest })
    }

    /// Messages that have the turn in their lanes and those that wait there enter them.
    async fn enter_lanes(&self, session: &mut impl Session, front: &Front<SqlTemplate>, looked: &Looked) -> Result<()> {
        for (place, seqs) in [(1, &looked.turns), (0, &looked.waits)] {
            for run in seqs.chunk_by(|one, next| *next == one + 1) {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                session.execute(&front.enter.with(vec![int(*first), int(*last), int(place)])).await?;
            }
        }
        for (lane, last) in &looked.behind_skipped {
            for statement in [&front.enter_up_to, &front.mark_up_to, &front.look] {
                session.execute(&statement.with(vec![int(*last), text(Some(lane))])).await?;
            }
        }
        Ok(())
    }

    /// Returns where the last claim of the same topics says that this one goes on, if that claim was committed.
    async fn onward(
        &self,
        session: &mut impl Session,
        (queue, front): (Queue, &Front<SqlTemplate>),
        request: &ClaimRequest,
    ) -> Result<Onward> {
        if request.suspects {
            return Ok(Onward::nowhere());
        }
        let Some(known) = self.skipped.take(queue, request.topics.as_ref()) else { return Ok(Onward::nowhere()) };
        let Some(witness) = known.witness else { return Ok(known) };
        let is_marked = session.query(&front.is_marked.with(vec![int(witness)]), |row| row.int(0)).await?;
        Ok(if is_marked.is_empty() { Onward::nowhere() } else { known })
    }

    /// Returns the first messages in the line that the claim covers.
    async fn waiting(
        &self,
        session: &mut impl Session,
        line: &Lines<SqlTemplate>,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Vec<Candidate>> {
        let read = |row: &dyn Row| {
            let bytes = u64::try_from(number(row, 2)?).unwrap_or(0);
            Ok(Candidate { seq: number(row, 0)?, at: Timestamp::from_micros(number(row, 1)?), bytes, fresh: None })
        };
        let select = line_of(line, request).with(self.claim_values(request, now, now.into()));
        session.query(&select, read).await
    }

    /// Reads on from the front, until the claim has enough. `full` is the position of the last message that the line
    /// would give it.
    async fn look_ahead(
        &self,
        session: &mut impl Session,
        (queue, front): (Queue, &Front<SqlTemplate>),
        request: &ClaimRequest,
        (now, from): (Timestamp, i64),
        full: Option<(Timestamp, i64)>,
        looked: &mut Looked,
    ) -> Result<()> {
        let (until, owner) = (self.late(now).plus(request.lease), request.owner);
        let (mut total, places) = (0_u64, request.places());
        let (mut in_turn, mut next, wants_all) = (0, Some(from), request.topics.is_none());
        while let Some(from) = next.take() {
            let read = |row: &dyn Row| {
                let (seq, at, bytes) = (number(row, message::SEQ)?, rows::claimed_at(row)?, rows::payload_bytes(row)?);
                let is_ours = wants_all || is_for(&places, queue, row, (message::TOPIC, message::NEXT + 2));
                let lane = row.str(message::LANE)?;
                if !is_ours && looked.may_skip(lane) {
                    next = Some(seq);
                    return Ok(None);
                }
                if let Some(lane) = lane.filter(|lane| looked.skipped_lanes.contains(lane)) {
                    return Ok(looked.wait_behind_skipped(lane, seq));
                }
                let room = number(row, claimed::LANE_ROOM)?;
                if lane.is_some_and(|lane| !looked.has_turn(lane, room)) {
                    return Ok(looked.wait(seq));
                }
                let expired = rows::moment(row, message::EXPIRES_AT)?.is_some_and(|expires| expires <= now);
                if at > now || expired || !is_ours {
                    return Ok(looked.pass(seq).map(|()| looked.turns.extend(lane.map(|_| seq))));
                }
                let is_delayed = at.as_micros() > number(row, message::CREATED_AT)?;
                total = total.saturating_add(bytes);
                let fits = in_turn < request.budget.least || total <= request.budget.bytes;
                let is_after = full.is_some_and(|full| (at, seq) > full) && !is_delayed;
                if in_turn >= request.batch || looked.candidates.len() >= PASSED_MAX || !fits || is_after {
                    looked.stopped_at = Some(seq);
                    return Ok(None);
                }
                // What was delayed may have its turn after messages with higher numbers.
                in_turn += usize::from(!is_delayed);
                looked.last = Some(seq);
                looked.turns.extend(lane.map(|_| seq));
                let fresh = Some(read_claimed(row, queue, owner, until, rows::Known::Fresh)?);
                looked.candidates.push(Candidate { at, seq, bytes, fresh });
                Ok(Some(()))
            };
            session.query_while(&front.fresh.with(vec![int(from)]), read).await?;
            if let Some(from) = next.take() {
                next = self.skip(session, (queue, front), &places, from, looked).await?;
            }
        }
        Ok(())
    }

    /// Skips messages that are not for the claim, without reading their payloads. Returns the number of the next one
    /// that is.
    async fn skip(
        &self,
        session: &mut impl Session,
        (queue, front): (Queue, &Front<SqlTemplate>),
        places: &Topics,
        from: i64,
        looked: &mut Looked,
    ) -> Result<Option<i64>> {
        let mut next = None;
        let read = |row: &dyn Row| {
            let seq = number(row, 0)?;
            let lane = row.str(3)?;
            if is_for(places, queue, row, (1, 2)) || !looked.may_skip(lane) {
                next = Some(seq);
                return Ok(None);
            }
            Ok(looked.skip(seq, lane))
        };
        session.query_while(&front.skim.with(vec![int(from)]), read).await?;
        Ok(next)
    }

    /// Takes them out of the line and holds them.
    async fn hold_taken(
        &self,
        session: &mut impl Session,
        (queue, front): (Queue, &Front<SqlTemplate>),
        request: &ClaimRequest,
        taken: Vec<Candidate>,
        now: Timestamp,
    ) -> Result<Vec<Claimed>> {
        let until = self.late(now).plus(request.lease);
        let (mut claimed, mut held) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        for Candidate { seq, fresh, .. } in taken {
            let one = match fresh {
                Some(fresh) => fresh,
                None => {
                    let Some(mut record) = self.list(session, queue, &Filter::one(seq)).await?.pop() else { continue };
                    session.execute(&front.take.with(vec![int(seq)])).await?;
                    record.work.claim(request.owner, until, now);
                    let Some(lease) = record.lease() else { continue };
                    Claimed { lease, message: record.message.map(Arc::new) }
                }
            };
            held.push((seq, one.lease.claim_no));
            claimed.push(one);
        }
        self.hold_runs(session, queue, held, request.owner, now, until).await?;
        Ok(claimed)
    }

    /// Holds messages, given by number and claim number, as runs.
    async fn hold_runs(
        &self,
        session: &mut impl Session,
        queue: Queue,
        mut held: Vec<(i64, i64)>,
        owner: OwnerToken,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<()> {
        let Some(runs) = &self.statements.of(queue).runs else { return Ok(()) };
        held.sort_unstable();
        for run in held.chunk_by(|one, next| next.0 == one.0 + 1 && next.1 == one.1) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let owner = uuid(Some(owner.as_uuid()));
            let values = vec![int(first.0), int(last.0), int(first.1), owner, time(Some(now)), time(Some(until))];
            session.execute(&runs.hold.with(values)).await?;
        }
        Ok(())
    }
}

/// Returns whether a message is for a claim of these places, by its topic and destination in these columns.
fn is_for(places: &Topics, queue: Queue, row: &dyn Row, (topic, destination): (usize, usize)) -> bool {
    let destination = match queue {
        Queue::Outbox => row.str(destination).ok().flatten(),
        Queue::Inbox => None,
    };
    places.contains(row.str(topic).ok().flatten().unwrap_or_default(), destination)
}
