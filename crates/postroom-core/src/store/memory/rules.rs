//! Pauses and limits in memory.

use super::table::Table;
use crate::queue::{ClaimRequest, Limit, Pause, Place, Rule, Ruled, Scope, State, Topics};
use crate::store::holds::WAITING_COUNTED;
use crate::store::{Operator, Record};
use crate::support::clock::Timestamp;

/// A rule, and when the next message may start within its limit.
#[derive(Debug)]
pub(super) struct Kept {
    rule: Rule,
    due: Timestamp,
}

impl Table {
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = self.rules.values().map(|kept| kept.rule.clone()).collect();
        for rule in &mut rules {
            let waiting = rule.scope.place().map(|place| self.at(place, State::Ready).take(WAITING_COUNTED).count());
            rule.waiting = waiting.unwrap_or(0) as u64;
        }
        rules
    }

    fn at<'t>(&'t self, place: &Place, state: State) -> impl Iterator<Item = &'t Record> {
        let is_there = move |record: &&Record| {
            record.state() == state && record.message.as_ref().is_ok_and(|message| Place::of(message) == *place)
        };
        self.rows.values().filter(is_there)
    }

    fn change_rule(&mut self, scope: &Scope, change: impl FnOnce(&mut Kept) -> bool) -> u64 {
        let new = || Kept {
            rule: Rule { scope: scope.clone(), paused: None, limit: None, waiting: 0 },
            due: Timestamp::from_micros(0),
        };
        let kept = self.rules.entry((scope.kind(), scope.name().to_owned())).or_insert_with(new);
        let changed = change(kept);
        self.rules.retain(|_, kept| kept.rule.paused.is_some() || kept.rule.limit.is_some());
        changed.into()
    }

    pub(super) fn pause(&mut self, scope: &Scope, operator: &Operator, now: Timestamp) -> u64 {
        let by = || Pause { since: now, by: operator.who().into(), why: operator.why().map(str::to_owned) };
        self.change_rule(scope, |kept| {
            let is_new = kept.rule.paused.is_none();
            kept.rule.paused.get_or_insert_with(by);
            is_new
        })
    }

    pub(super) fn resume(&mut self, scope: &Scope) -> u64 {
        self.change_rule(scope, |kept| kept.rule.paused.take().is_some())
    }

    pub(super) fn limit(&mut self, scope: &Scope, limit: Limit, now: Timestamp) -> u64 {
        self.change_rule(scope, |kept| {
            (kept.rule.limit, kept.due) = (Some(limit).filter(|limit| !limit.is_none()), now);
            true
        })
    }

    pub(super) fn set_rules(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.rules.values().map(|kept| &kept.rule)
    }

    /// Returns what a claim may take.
    pub(super) fn ruled(&self, request: &ClaimRequest) -> Ruled {
        let rules: Vec<_> = self.set_rules().cloned().collect();
        Ruled::new(&rules, request)
    }

    /// Returns the claims of limited places, each within its limit, and the earliest time when one of them may start.
    pub(super) fn within_limits(
        &mut self,
        request: &ClaimRequest,
        limited: &[(Place, Limit)],
        now: Timestamp,
        mut take: impl FnMut(&mut Self, ClaimRequest) -> usize,
    ) -> Option<Timestamp> {
        let (mut left, mut again_at) = (request.batch, None);
        for (place, limit) in limited {
            let in_progress = self.at(place, State::Leased).count() as u64;
            let key = (if matches!(place, Place::Topic(_)) { "topic" } else { "service" }, place.name().to_owned());
            let Some(due) = self.rules.get(&key).map(|kept| kept.due) else { continue };
            let allowance = limit.allowance(in_progress, due, now);
            again_at = [again_at, allowance.again_at].into_iter().flatten().min();
            let batch = left.min(allowance.messages);
            let Some(only) = Topics::of(place).filter(|_| batch > 0) else { continue };
            let taken = take(self, ClaimRequest { batch, topics: Some(only), ..request.clone() });
            left -= taken;
            if let Some(kept) = self.rules.get_mut(&key).filter(|_| taken > 0) {
                kept.due = limit.due_after(taken, due, now);
            }
        }
        again_at
    }
}
