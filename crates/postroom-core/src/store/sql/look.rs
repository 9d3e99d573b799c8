//! Looks before claiming. One query finds what may be claimed, which leases ran out, and when to query again. An idle
//! worker costs a server one or two round trips each time it wakes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::claim::{Taken, in_order};
use super::lanes::Inside;
use super::rows::{self, int, moment, read_claimed};
use super::scan_start::{Lines, Look};
use super::{Session, SqlVerbs};
use crate::queue::{ClaimRequest, Claims, Queue, Reaped};
use crate::sql::Row;
use crate::sql::columns::{looked, message};
use crate::sql::plans::Claim;
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::Result;

/// When to look again at a lane of which something could not be had.
const SOON: Duration = Duration::from_millis(20);

/// The first row that a look found in each order.
pub(crate) type Looked = Lines<Option<Timestamp>>;

impl Looked {
    /// Returns whether something may be claimed.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.ready.is_some_and(|at| at <= now)
    }

    /// Returns whether a lease ran out.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.leased.is_some_and(|at| at <= now)
    }

    /// Returns whether a message is past its time to live.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expiring.is_some_and(|at| at <= now)
    }

    /// Returns an empty claim, with the time when that may change.
    pub(super) fn nothing(&self, reaped: Reaped) -> Claims {
        let next_at = [self.ready, self.leased].into_iter().flatten().min();
        Claims { claimed: Vec::new(), next_at, reaped }
    }
}

/// A claim, with what is known beforehand.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) queue: Queue,
    pub(crate) request: ClaimRequest,
    /// Whether to look for leases that ran out, and for rows before the point where claims start, before the claim.
    looks_first: bool,
    looked: Mutex<Option<Looked>>,
}

impl Asked {
    pub(crate) fn new(queue: Queue, request: ClaimRequest, looks_first: bool) -> Self {
        Self { queue, request, looks_first, looked: Mutex::default() }
    }

    /// Keeps what was found for the transaction that follows.
    fn keep(&self, looked: Looked) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked);
    }

    fn take(&self) -> Option<Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl SqlVerbs {
    /// Looks for the first ready row, the first lease that ends and the first row that expires.
    pub(super) async fn look(&self, session: &mut impl Session, queue: Queue, now: Timestamp) -> Result<Looked> {
        let (start, asked) = (self.scan_start(queue), monotonic());
        let begin = start.begin(asked);
        let values = [self.early(now), begin.ready, begin.leased, begin.expiring].map(|at| int(at.as_micros()));
        let has_lanes = self.statements.of(queue).lanes.is_some();
        let read = |row: &dyn Row| {
            if has_lanes && row.int(3)? == Some(1) {
                self.expected.seen(queue);
            }
            Ok(Looked { ready: moment(row, 0)?, leased: moment(row, 1)?, expiring: moment(row, 2)? })
        };
        let (Claim::AtOnce { look, .. } | Claim::Called { look, .. }) = &self.statements.of(queue).claim else {
            return Ok(Looked::default());
        };
        let first = session.query(&look.with(values.to_vec()), read).await?.pop().unwrap_or_default();
        start.looked(Look { asked, took: asked.elapsed(), now }, begin, first);
        Ok(first)
    }

    /// Claims with one statement, outside any other transaction. It looks too if it finds nothing and the database can
    /// do both at once.
    async fn claim_or_look(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<(Option<Claims>, Option<Looked>)> {
        let Claim::AtOnce { take_or_look: Some(take_or_look), .. } = &self.statements.of(queue).claim else {
            return Ok((self.autocommit_claim(session, queue, request, now).await?, None));
        };
        let (start, asked) = (self.scan_start(queue), monotonic());
        let begin = start.begin(asked);
        let look = [self.early(now), begin.ready, begin.leased, begin.expiring].map(|at| int(at.as_micros()));
        let mut values = self.claim_values(request, now, start.from());
        // It selects no topics, and looks with values in their places.
        values.splice(8.., look);
        let (owner, until) = (request.owner, self.late(now).plus(request.lease));
        let mut looked = None;
        let read = |row: &dyn Row| {
            if row.int(message::SEQ)?.is_none() {
                if row.int(looked::NOTED)? == Some(1) {
                    self.expected.seen(queue);
                }
                let [ready, leased, expiring] = [looked::READY, looked::LEASED, looked::EXPIRING];
                looked = Some(Looked {
                    ready: moment(row, ready)?,
                    leased: moment(row, leased)?,
                    expiring: moment(row, expiring)?,
                });
                return Ok(None);
            }
            let claimed = read_claimed(row, queue, owner, until, rows::Known::Any)?;
            Ok(Some((rows::claimed_at(row)?, claimed)))
        };
        let found = session.query(&take_or_look.with(values), read).await?;
        let mut claimed: Vec<_> = found.into_iter().flatten().collect();
        if let Some(found) = in_order(&mut claimed) {
            start.raise(found.passed(now));
            let claimed: Vec<_> = claimed.into_iter().map(|(_, claimed)| claimed).collect();
            self.expect_notes_of(queue, &claimed);
            return Ok((Some(Claims { claimed, next_at: None, reaped: Reaped::default() }), None));
        }
        let looked = looked.unwrap_or_default();
        start.looked(Look { asked, took: asked.elapsed(), now }, begin, looked);
        Ok((None, Some(looked)))
    }

    /// Claims outside any transaction, with a few statements that each commit. Returns `None` if it takes more. The
    /// first messages of lanes are in the line before.
    pub(crate) async fn claim_briefly(
        &self,
        session: &mut impl Session,
        asked: &Asked,
        now: Timestamp,
    ) -> Result<Option<Claims>> {
        let queue = asked.queue;
        self.look_at_lanes(session, queue, now, (Inside::Nothing, asked.request.batch)).await?;
        let ruled = self.ruled(session, queue, &asked.request).await?;
        if !ruled.is_plain() {
            return Ok(None);
        }
        let Some(request) = ruled.request else { return Ok(Some(Claims::default())) };
        let claims = self.claim_without_lanes(session, asked, &request, now).await?;
        if !self.expected.were_seen(queue) || claims.as_ref().is_none_or(|claims| !claims.claimed.is_empty()) {
            return Ok(claims);
        }
        self.look_at_lanes(session, queue, now, (Inside::Nothing, asked.request.batch)).await?;
        self.claim_without_lanes(session, asked, &request, now).await
    }

    async fn claim_without_lanes(
        &self,
        session: &mut impl Session,
        asked: &Asked,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claims>> {
        let queue = asked.queue;
        let take = self.statements.of(queue).claims_at_once();
        let claims_first = take.is_some() && !asked.looks_first;
        if request.suspects {
            let values = self.claim_values(request, now, now.into());
            let next = self.statements.of(queue).suspects_next.with(values);
            let next_at = session.query(&next, |row| moment(row, 0)).await?.into_iter().flatten().next();
            if next_at.is_none_or(|next_at| next_at > now) {
                return Ok(Some(Claims { claimed: Vec::new(), next_at, reaped: Reaped::default() }));
            }
        }
        if request.is_special() {
            let Some(take) = take.filter(|_| claims_first) else { return Ok(None) };
            let from = self.beginning(queue, request, now);
            let taken = self.claim_from(session, (queue, take), request, now, from).await?;
            let claims = self.or_when(session, queue, request, (taken, now), Reaped::default()).await?;
            // Something is due and was not claimed: a lease ran out, for example.
            let is_more = claims.claimed.is_empty() && claims.next_at.is_some_and(|next_at| next_at <= now);
            return Ok((!is_more).then_some(claims));
        }
        let (claims, looked) = match claims_first {
            true => self.claim_or_look(session, queue, request, now).await?,
            false => (None, None),
        };
        if claims.is_some() {
            return Ok(claims);
        }
        let looked = match looked {
            Some(looked) => looked,
            None => self.look(session, queue, now).await?,
        };
        let early = self.early(now);
        let is_more = looked.is_over(early) || looked.is_expired(early);
        match (looked.ready.filter(|_| looked.is_ready(now)), take) {
            (None, _) if !is_more => Ok(Some(looked.nothing(Reaped::default()))),
            (Some(first), Some(take)) if !is_more => {
                let Taken { claimed, .. } = self.claim_from(session, (queue, take), request, now, first.into()).await?;
                if claimed.is_empty() {
                    return Ok(Some(looked.nothing(Reaped::default())));
                }
                Ok(Some(Claims { claimed, next_at: None, reaped: Reaped::default() }))
            }
            _ => {
                asked.keep(looked);
                Ok(None)
            }
        }
    }

    /// Does the same in a transaction, with everything that has to be done first.
    pub(crate) async fn claim_asked(
        &self,
        session: &mut impl Session,
        asked: &Asked,
        now: Timestamp,
    ) -> Result<Claims> {
        let mut claims = self.claim_looked(session, asked.queue, &asked.request, now, asked.take()).await?;
        if claims.claimed.is_empty() && self.expected.were_seen(asked.queue) {
            // Somebody may have the turn in a lane soon.
            claims.next_at = Some(now.plus(SOON));
        }
        Ok(claims)
    }

    /// Returns whether there may be something to claim in the outbox and in the inbox, and whether the server is
    /// read-only.
    pub(crate) async fn idle_poll(&self, session: &mut impl Session, now: Timestamp) -> Result<([bool; 2], bool)> {
        let asked = monotonic();
        let begins = [Queue::Outbox, Queue::Inbox].map(|queue| self.scan_start(queue).begin(asked));
        let [outbox, inbox] = begins;
        let values = [now, outbox.ready, inbox.ready, outbox.leased, inbox.leased].map(|at| int(at.as_micros()));
        let read = |row: &dyn Row| {
            let is_on = |column| row.int(column).map(|value| value == Some(1));
            Ok(([is_on(0)?, is_on(1)?], is_on(2)?, [is_on(3)?, is_on(4)?]))
        };
        let Some(poll) = &self.statements.idle_poll else { return Ok(([true; 2], false)) };
        let found = session.query(&poll.with(values.to_vec()), read).await?.pop();
        let (may_have_work, is_read_only, has_rules) = found.unwrap_or_default();
        for (queue, is_any) in [Queue::Outbox, Queue::Inbox].into_iter().zip(has_rules) {
            self.known_rules.polled(queue, is_any);
        }
        for ((queue, begin), has_work) in [Queue::Outbox, Queue::Inbox].into_iter().zip(begins).zip(may_have_work) {
            // The poll finds that there is something, but not where. The claim that follows finds out.
            if has_work {
                // Claims of some topics see no notes, so they look before.
                self.expected.perhaps(queue);
            } else {
                self.scan_start(queue).passed(Look { asked, took: asked.elapsed(), now }, begin);
            }
        }
        Ok((may_have_work, is_read_only))
    }
}
