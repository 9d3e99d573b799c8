//! Claims rows, after rows whose lease ran out and expired rows have been handled.

use std::sync::Arc;
use std::time::Duration;

use super::lanes::Inside;
use super::look::Looked;
use super::rows::{self, int, read_claimed, row_count, time, uuid};
use super::scan_start::{BEGINNING, Position, Span};
use super::topic_scan_start::Look;
use super::{Session, SqlVerbs};
use crate::queue::{ClaimRequest, Claimed, Claims, Queue, Reaped, Ruled};
use crate::sql::plans::{Claim, Lines};
use crate::sql::text::SqlTemplate;
use crate::sql::{Row, Value};
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::Result;

/// The smallest unit of time.
pub(super) const TICK: Duration = Duration::from_micros(1);

/// The result of a claim.
pub(super) struct Taken {
    pub(super) claimed: Vec<Claimed>,
    /// Where the rest of the queue begins. There is nothing before it for this claim.
    pub(super) rest: Timestamp,
}

impl SqlVerbs {
    /// Claims rows in a database that takes round trips. It does not repeat a look that was just taken.
    pub(super) async fn claim_looked(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
        looked: Option<Looked>,
    ) -> Result<Claims> {
        if session.in_doubt() {
            let claimed = self.claimed_before(session, queue, request, now).await?;
            if !claimed.is_empty() {
                return Ok(Claims { claimed, next_at: None, reaped: Reaped::default() });
            }
        }
        self.look_at_lanes(session, queue, now, (Inside::Transaction, request.batch)).await?;
        let Ruled { request: within, limited, freed_lanes } = self.ruled(session, queue, request).await?;
        for scope in &freed_lanes {
            self.after_change(session, queue, scope).await?;
        }
        let Some(within) = within else { return Ok(Claims::default()) };
        let claims = self.claim_ruled(session, queue, &within, now, looked).await?;
        self.claim_limited(session, queue, (request, &limited), claims, now).await
    }

    async fn claim_ruled(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
        looked: Option<Looked>,
    ) -> Result<Claims> {
        let mut looked = match looked.filter(|_| !session.in_doubt()) {
            Some(looked) => looked,
            None => self.look(session, queue, now).await?,
        };
        let early = self.early(now);
        let is_wrong = (looked.is_over(early), looked.is_expired(early));
        let reaped = self.reap_and_expire(session, queue, request.batch, now, is_wrong).await?;
        if reaped.total() > 0 {
            // What has ended may have let others of its lane pass.
            self.look_at_lanes(session, queue, now, (Inside::Transaction, request.batch)).await?;
            looked = self.look(session, queue, now).await?;
        }
        if request.is_special() {
            let from = self.beginning(queue, request, now);
            let taken = self.claim_in_line(session, queue, request, now, from).await?;
            return self.or_when(session, queue, request, (taken, now), reaped).await;
        }
        let Some(first) = looked.ready.filter(|_| looked.is_ready(now)) else { return Ok(looked.nothing(reaped)) };
        let Taken { claimed, .. } = self.claim_in_line(session, queue, request, now, first.into()).await?;
        if claimed.is_empty() {
            return Ok(looked.nothing(reaped));
        }
        Ok(Claims { claimed, next_at: None, reaped })
    }

    pub(super) async fn claim_in_line(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
        from: Position,
    ) -> Result<Taken> {
        match &self.statements.of(queue).claim {
            Claim::AtOnce { take, .. } => self.claim_from(session, (queue, take), request, now, from).await,
            Claim::Called { within, .. } => self.claim_from(session, (queue, within), request, now, from).await,
            Claim::Front { line, front } => self.claim_front(session, (queue, line, front), request, now).await,
        }
    }

    /// Returns the claimed rows. If there are none, it queries when to look again.
    pub(super) async fn or_when(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        (taken, now): (Taken, Timestamp),
        reaped: Reaped,
    ) -> Result<Claims> {
        if !taken.claimed.is_empty() {
            return Ok(Claims { claimed: taken.claimed, next_at: None, reaped });
        }
        let statements = self.statements.of(queue);
        let next = match &statements.claim {
            _ if request.suspects => &statements.suspects_next,
            Claim::Front { front, .. } if request.topics.is_none() => &front.next,
            _ => &statements.topics_next,
        };
        let mut values = self.claim_values(request, now, taken.rest.into());
        // Leases that ran out before this are found by the next look.
        values.push(int(self.scan_start(queue).begin(monotonic()).leased.as_micros()));
        let next = next.with(values);
        let next = session.query(&next, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(Claims { claimed: Vec::new(), next_at: next.map(Timestamp::from_micros), reaped })
    }

    /// Reaps rows whose lease ran out and expires rows past their time to live, if there may be some.
    pub(super) async fn reap_and_expire(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
        now: Timestamp,
        (is_over, is_expired): (bool, bool),
    ) -> Result<Reaped> {
        let mut reaped = if is_over { self.reap(session, queue, limit, now).await? } else { Reaped::default() };
        if is_expired {
            reaped.expired += self.expire(session, queue, limit, now).await?;
        }
        Ok(reaped)
    }

    /// Claims with one statement, outside any other transaction. Returns `None` if that found nothing or is not
    /// possible.
    pub(crate) async fn autocommit_claim(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claims>> {
        let Some(take) = self.statements.of(queue).claims_at_once() else { return Ok(None) };
        let from = self.beginning(queue, request, now);
        let Taken { claimed, .. } = self.claim_from(session, (queue, take), request, now, from).await?;
        Ok((!claimed.is_empty()).then_some(Claims { claimed, next_at: None, reaped: Reaped::default() }))
    }

    /// Returns whether it is time to look for leases that ran out, and for rows before the point where claims start.
    pub(crate) fn is_look_due(&self, queue: Queue, now: Timestamp) -> bool {
        self.statements.of(queue).claims_at_once().is_none() || self.scan_start(queue).is_look_due(now)
    }

    /// Returns where a claim starts. A claim of a few topics leaves rows in the queue, so it has its own start.
    pub(super) fn beginning(&self, queue: Queue, request: &ClaimRequest, now: Timestamp) -> Position {
        match &request.topics {
            // Suspects have their own index, and there are few.
            _ if request.suspects => BEGINNING.into(),
            Some(topics) => self.topic_scan_start.beginning(queue, topics, now),
            None => self.scan_start(queue).from(),
        }
    }

    /// Returns the values for every claim, and for every query of when to claim again.
    pub(super) fn claim_values(&self, request: &ClaimRequest, now: Timestamp, from: Position) -> Vec<Value> {
        let [(topics, only_topics), (destinations, only_destinations)] = request.places().values();
        let bytes = i64::try_from(request.budget.bytes).unwrap_or(i64::MAX);
        vec![
            int(now.as_micros()),
            int(row_count(request.batch)),
            uuid(Some(request.owner.as_uuid())),
            int(self.late(now).plus(request.lease).as_micros()),
            int(from.at.as_micros()),
            int(bytes),
            int(row_count(request.budget.least)),
            int(from.seq),
            Value::Text(Some(topics)),
            int(only_topics),
            Value::Text(Some(destinations)),
            int(only_destinations),
        ]
    }

    pub(super) async fn claim_from(
        &self,
        session: &mut impl Session,
        (queue, take): (Queue, &Lines<SqlTemplate>),
        request: &ClaimRequest,
        now: Timestamp,
        from: Position,
    ) -> Result<Taken> {
        let until = self.late(now).plus(request.lease);
        let claim = line_of(take, request).with(self.claim_values(request, now, from));
        let owner = request.owner;
        let read = move |row: &dyn Row| {
            let at = rows::claimed_at(row)?;
            Ok((at, read_claimed(row, queue, owner, until, rows::Known::Any)?))
        };
        let asked = monotonic();
        let mut claimed = session.query(&claim, read).await?;
        let found = in_order(&mut claimed);
        match (&request.topics, found) {
            _ if request.suspects => {}
            (Some(topics), _) => {
                self.topic_scan_start.looked(queue, topics, Look { from, now, took: asked.elapsed(), found });
            }
            (None, Some(found)) => self.scan_start(queue).raise(found.passed(now)),
            (None, None) => {}
        }
        // Rows that exceed the budget are not returned, so the rest may start earlier.
        let rest = if request.budget.least == 0 { from.at } else { now.plus(TICK) };
        let claimed: Vec<_> = claimed.into_iter().map(|(_, claimed)| claimed).collect();
        self.expect_notes_of(queue, &claimed);
        Ok(Taken { claimed, rest })
    }

    /// Returns the rows of an earlier claim whose commit was not answered.
    async fn claimed_before(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Vec<Claimed>> {
        let until = Some(self.late(now).plus(request.lease));
        let values = vec![time(until), uuid(Some(request.owner.as_uuid()))];
        let leased = self.load(session, queue, &self.statements.of(queue).load_claimed.with(values)).await?;
        let ours = leased.into_iter().filter(|row| row.work.last_attempt_at == Some(now));
        Ok(ours.filter_map(|row| Some(Claimed { lease: row.lease()?, message: row.message.map(Arc::new) })).collect())
    }

    /// Returns the values of the lease that is being settled.
    pub(super) fn fence(lease: &crate::queue::Lease) -> Vec<Value> {
        vec![int(lease.seq), uuid(Some(lease.owner.as_uuid())), int(lease.claim_no)]
    }
}

/// Sorts rows by their positions, because a claim returns them in no particular order. Returns where they are.
pub(super) fn in_order(claimed: &mut [(Timestamp, Claimed)]) -> Option<Span> {
    claimed.sort_unstable_by_key(|(at, claimed)| (*at, claimed.lease.seq));
    let position = |(at, claimed): &(Timestamp, Claimed)| Position { at: *at, seq: claimed.lease.seq };
    Some(Span { first: claimed.first().map(position)?, last: claimed.last().map(position)? })
}

/// Returns the part of the queue that a claim takes from.
pub(super) fn line_of<'t>(lines: &'t Lines<SqlTemplate>, request: &ClaimRequest) -> &'t SqlTemplate {
    match &request.topics {
        _ if request.suspects => &lines.suspects,
        Some(_) => &lines.topics,
        None => &lines.all,
    }
}
