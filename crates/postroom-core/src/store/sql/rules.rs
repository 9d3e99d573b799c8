//! Pauses and limits. A claim leaves out the places that have a rule, and a limited place has a claim of its own, in
//! the same transaction: claims of that place take turns, and count what is in progress.
//!
//! A rule of lanes changes no claim. Whoever sets one lets the lanes be looked at again: what waits in a lane has its
//! turn by a look, and a look knows the rules. A message that had its turn at that very moment may still be claimed;
//! what belongs to a lane that is paused is given back.
//!
//! The rules are read by claims, at most once in a while where reading is a round trip. An idle store polls anyway, and
//! learns there whether anything was set, so a claim after a rest is not slower.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::claim::TICK;
use super::rows::{int, opt, row_count, text, time};
use super::{Session, SqlVerbs};
use crate::message::Message;
use crate::queue::{ClaimRequest, Claimed, Claims, Limit, OnDead, Pause, Place, Queue, Rule, Ruled, Scope, Settle};
use crate::sql::plans::Claim;
use crate::sql::{Row, Value};
use crate::store::Operator;
use crate::store::holds::WAITING_COUNTED;
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::{Error, Result};

/// How long rules are valid that were read from a server. Workers notice a change within a second.
const VALID: Duration = Duration::from_millis(750);
/// The most rules of a queue. A claim names the places that it leaves out.
const RULES_MAX: usize = 500;
/// How many messages are remembered that were claimed and given back.
const GIVEN_BACK_MAX: usize = 10_000;

/// The rules of both queues, as this process knows them.
#[derive(Debug, Default)]
pub(super) struct KnownRules([Mutex<Known>; 2]);

#[derive(Debug, Default)]
struct Known {
    rules: Arc<[Rule]>,
    valid_until: Option<Instant>,
    /// Messages of paused lanes that were claimed and given back.
    given_back: HashSet<i64>,
}

impl KnownRules {
    fn of(&self, queue: Queue) -> MutexGuard<'_, Known> {
        self.0[queue.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn valid(&self, queue: Queue) -> Option<Arc<[Rule]>> {
        let known = self.of(queue);
        known.valid_until.is_some_and(|until| monotonic() < until).then(|| known.rules.clone())
    }

    fn learn(&self, queue: Queue, rules: Arc<[Rule]>) {
        let mut known = self.of(queue);
        (known.rules, known.valid_until) = (rules, Some(monotonic() + VALID));
    }

    fn forget(&self, queue: Queue) {
        self.of(queue).valid_until = None;
    }

    /// A poll found whether there are any.
    pub(super) fn polled(&self, queue: Queue, is_any: bool) {
        let mut known = self.of(queue);
        let is_none = !is_any && known.rules.is_empty();
        known.valid_until = is_none.then(|| monotonic() + VALID);
    }
}

/// What a change of a rule is followed by so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Followed {
    Not,
    Commit,
}

impl SqlVerbs {
    /// Returns the rules, and how many messages wait for what they are about.
    pub(crate) async fn rules(&self, session: &mut impl Session, queue: Queue) -> Result<Vec<Rule>> {
        let mut rules = self.read_rules(session, queue).await?;
        rules.retain(|rule| !rule.is_over());
        for rule in &mut rules {
            if let Some(place) = rule.scope.place() {
                rule.waiting = self.count_waiting_for(session, queue, place, WAITING_COUNTED).await?;
            }
        }
        Ok(rules)
    }

    async fn read_rules(&self, session: &mut impl Session, queue: Queue) -> Result<Vec<Rule>> {
        let list = self.statements.of(queue).rules.list.with(Vec::new());
        Ok(session.query(&list, read).await?.into_iter().flatten().collect())
    }

    pub(super) async fn pause(
        &self,
        session: &mut impl Session,
        queue: Queue,
        scope: &Scope,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<u64> {
        self.add_rule(session, queue, scope).await?;
        let mut values = about(scope);
        values.extend([time(Some(now)), text(Some(operator.who())), text(operator.why())]);
        let paused = session.execute(&self.statements.of(queue).rules.pause.with(values)).await?.rows;
        self.rule_changed(session, queue, scope, Followed::Not).await?;
        Ok(paused)
    }

    pub(super) async fn resume(&self, session: &mut impl Session, queue: Queue, scope: &Scope) -> Result<u64> {
        let rules = &self.statements.of(queue).rules;
        let resumed = session.execute(&rules.resume.with(about(scope))).await?.rows;
        self.rule_changed(session, queue, scope, Followed::Not).await?;
        Ok(resumed)
    }

    pub(super) async fn limit(
        &self,
        session: &mut impl Session,
        queue: Queue,
        scope: &Scope,
        limit: &Limit,
        now: Timestamp,
    ) -> Result<u64> {
        let rules = &self.statements.of(queue).rules;
        self.add_rule(session, queue, scope).await?;
        let mut values = about(scope);
        let at_once = limit.at_once.map(i64::from);
        let burst = limit.burst.map(i64::from);
        values.extend([at_once, limit.every(), burst, limit.on_dead.map(OnDead::code)].map(opt));
        let limited = session.execute(&rules.limit.with(values)).await?.rows;
        if scope.place().is_some() {
            session.execute(&rules.rate_remove.with(about(scope))).await?;
        }
        if scope.place().is_some() && !limit.is_none() {
            let due = about(scope).into_iter().chain([time(Some(now))]).collect();
            session.execute(&rules.rate_add.with(due)).await?;
        }
        self.rule_changed(session, queue, scope, Followed::Not).await?;
        Ok(limited)
    }

    /// Does what follows a change of a rule, in its transaction. The lanes of a topic are found after its commit:
    /// before that, somebody could let a lane rest, by the old rule, that was not found. Until then their rule is not
    /// deleted, so that somebody else goes on if this process ends here.
    async fn rule_changed(
        &self,
        session: &mut impl Session,
        queue: Queue,
        scope: &Scope,
        followed: Followed,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let looks_again = match (&statements.ruled_lanes, scope) {
            (Some(lanes), Scope::Lane(_)) => Some(&lanes.lane),
            (Some(lanes), Scope::Lanes(_)) if followed == Followed::Commit => Some(&lanes.topic),
            (Some(_), Scope::Lanes(_)) => {
                self.known_rules.forget(queue);
                return Ok(());
            }
            _ => None,
        };
        if let Some(look_again) = looks_again {
            session.execute(&look_again.with(vec![text(Some(scope.name()))])).await?;
            self.expected.notes(queue);
        }
        session.execute(&statements.rules.sweep.with(about(scope))).await?;
        self.known_rules.forget(queue);
        Ok(())
    }

    /// Does what follows after the commit of a change.
    pub(crate) async fn after_change(&self, session: &mut impl Session, queue: Queue, scope: &Scope) -> Result<()> {
        self.rule_changed(session, queue, scope, Followed::Commit).await
    }

    /// Takes out of a claim what belongs to lanes that are paused: whoever let a message have its turn may not have
    /// known of that. Once it is given back, it waits in its lane. One that comes again is not paused: the first
    /// message of its lane has another topic.
    pub(crate) fn of_paused_lanes(&self, queue: Queue, claims: &mut Claims) -> Vec<Settle> {
        let Known { rules, given_back, .. } = &mut *self.known_rules.of(queue);
        let is_paused = |rule: &&Rule| rule.paused.is_some() && rule.scope.is_of_lanes();
        let paused: Vec<_> = rules.iter().filter(is_paused).map(|rule| &rule.scope).collect();
        if paused.is_empty() || given_back.len() > GIVEN_BACK_MAX {
            given_back.clear();
        }
        let is_one = |claimed: &mut Claimed| {
            let is_of = |message: &Arc<Message>| paused.iter().any(|scope| scope.covers(message));
            claimed.message.as_ref().is_ok_and(is_of) && given_back.insert(claimed.lease.seq)
        };
        claims.claimed.extract_if(.., is_one).map(|one| Settle::release(one.lease)).collect()
    }

    async fn add_rule(&self, session: &mut impl Session, queue: Queue, scope: &Scope) -> Result<()> {
        let rules = &self.statements.of(queue).rules;
        if !session.query(&rules.find.with(about(scope)), |_| Ok(())).await?.is_empty() {
            return Ok(());
        }
        if self.read_rules(session, queue).await?.len() >= RULES_MAX {
            return Err(Error::invalid(format!("the {queue} has pauses and limits for {RULES_MAX} places already")));
        }
        session.execute(&rules.add.with(about(scope))).await?;
        Ok(())
    }

    /// Returns what a claim may take. Where nobody else can write, that is read anew each time.
    pub(super) async fn ruled(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &ClaimRequest,
    ) -> Result<Ruled> {
        let is_local = matches!(self.statements.of(queue).claim, Claim::Front { .. });
        let known = self.known_rules.valid(queue).filter(|_| !is_local);
        let rules = match known {
            Some(rules) => rules,
            None => {
                let rules: Arc<[Rule]> = self.read_rules(session, queue).await?.into();
                self.known_rules.learn(queue, rules.clone());
                rules
            }
        };
        Ok(Ruled::new(&rules, request))
    }

    /// Fills up a claim with messages of the places that have a limit.
    pub(super) async fn claim_limited(
        &self,
        session: &mut impl Session,
        queue: Queue,
        (request, limited): (&ClaimRequest, &[(Place, Limit)]),
        mut claims: Claims,
        now: Timestamp,
    ) -> Result<Claims> {
        let rules = &self.statements.of(queue).rules;
        for (place, limit) in limited {
            let scope = Scope::Place(place.clone());
            let left = request.batch.saturating_sub(claims.claimed.len());
            // A limit that was removed meanwhile has no row to wait for.
            if left == 0 || session.execute(&rules.rate_lock.with(about(&scope))).await?.rows == 0 {
                continue;
            }
            let due = session.query(&rules.rate_read.with(about(&scope)), |row| row.int(0)).await?;
            let due = Timestamp::from_micros(due.into_iter().flatten().next().unwrap_or(0));
            let in_progress = match limit.at_once {
                Some(_) => self.count_in_progress_at(session, queue, place).await?,
                None => 0,
            };
            let allowance = limit.allowance(in_progress, due, now);
            if allowance.messages == 0 {
                claims.next_at = [claims.next_at, allowance.again_at].into_iter().flatten().min();
                continue;
            }
            let Some(only) = crate::queue::Topics::of(place) else { continue };
            let part = ClaimRequest { batch: left.min(allowance.messages), topics: Some(only), ..request.clone() };
            let taken = self.claim_in_line(session, queue, &part, now, self.beginning(queue, &part, now)).await?;
            if taken.claimed.is_empty() {
                let nothing = super::claim::Taken { claimed: Vec::new(), rest: now.plus(TICK) };
                let when = self.or_when(session, queue, &part, (nothing, now), Default::default()).await?;
                claims.next_at = [claims.next_at, when.next_at].into_iter().flatten().min();
                continue;
            }
            if limit.every().is_some() {
                let due = limit.due_after(taken.claimed.len(), due, now);
                let values = about(&scope).into_iter().chain([time(Some(due))]).collect();
                session.execute(&rules.rate_set.with(values)).await?;
            }
            claims.claimed.extend(taken.claimed);
        }
        claims.next_at = claims.next_at.filter(|_| claims.claimed.is_empty());
        Ok(claims)
    }

    async fn count_in_progress_at(&self, session: &mut impl Session, queue: Queue, place: &Place) -> Result<u64> {
        let statements = self.statements.of(queue);
        let count = match place {
            Place::Service(_) => &statements.count_held_to,
            Place::Topic(_) => &statements.count_held_of,
        };
        let count = session.query(&count.with(vec![text(Some(place.name()))]), |row| row.int(0)).await?;
        Ok(count.into_iter().flatten().next().and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }

    pub(super) async fn count_waiting_for(
        &self,
        session: &mut impl Session,
        queue: Queue,
        place: &Place,
        limit: usize,
    ) -> Result<u64> {
        let statements = self.statements.of(queue);
        let count = match place {
            Place::Service(_) => &statements.count_to,
            Place::Topic(_) => &statements.count_of,
        };
        let count = count.with(vec![text(Some(place.name())), int(row_count(limit))]);
        let waiting = session.query(&count, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(waiting.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }
}

fn about(scope: &Scope) -> Vec<Value> {
    vec![text(Some(scope.kind())), text(Some(scope.name()))]
}

/// Returns `None` if it is about something that this program does not know.
fn read(row: &dyn Row) -> Result<Option<Rule>> {
    let (kind, name) = (row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
    let Some(scope) = Scope::read(&kind, &name) else { return Ok(None) };
    let paused = match row.int(6)? {
        Some(at) => {
            let by = row.text(7)?.unwrap_or_default();
            Some(Pause { since: Timestamp::from_micros(at), by, why: row.text(8)? })
        }
        None => None,
    };
    let limit = Limit::read([row.int(2)?, row.int(3)?, row.int(4)?, row.int(5)?]);
    Ok(Some(Rule { scope, paused, limit, waiting: 0 }))
}
