//! What operators set for a queue or for a part of it: pauses and limits. Pure.

use std::fmt;
use std::time::Duration;

use crate::queue::{ClaimRequest, OnDead, Place, Scope};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// The most messages that a limit may let pass in a second. Above this, the time from one to the next is too short to
/// be exact.
const PER_SECOND_MAX: u32 = 10_000;
/// The longest time of a rate.
const PER_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most messages that may start at once, after a rest.
const BURST_MAX: u32 = 1_000_000;
/// The most messages that a limit may let be in progress at once.
const AT_ONCE_MAX: u32 = 1_000_000;

/// How many messages may be in progress at once, and how many may start in a time, over all workers of all processes.
///
/// Of a lane, one message may be in progress at once unless a limit says more. A lane has no rate, but a policy for
/// messages that die ([`OnDead`]).
///
/// ```
/// use std::time::Duration;
/// use postroom::operator::Limit;
///
/// let gently = Limit::none().at_once(5).rate(100, Duration::from_secs(60)).burst(10);
/// assert_eq!(gently.to_string(), "5 at once, 100 in 60s with a burst of 10");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    pub(crate) at_once: Option<u32>,
    rate: Option<(u32, Duration)>,
    pub(crate) burst: Option<u32>,
    pub(crate) on_dead: Option<OnDead>,
}

impl Limit {
    /// Returns no limit. Setting it removes the limit that was set before.
    pub fn none() -> Self {
        Self::default()
    }

    crate::setters! {
        /// Sets how many messages may be in progress at once.
        pub fn at_once(mut self, messages: u32) { self.at_once = Some(messages); }

        /// Sets how many messages may start in a time. They are spread over that time.
        pub fn rate(mut self, messages: u32, per: Duration) { self.rate = Some((messages, per)); }

        /// Sets how many messages may start at once after a rest. The default is 1.
        pub fn burst(mut self, messages: u32) { self.burst = Some(messages); }

        /// Sets what becomes of a lane when a message of it dies. The default is [`OnDead::Block`].
        pub fn on_dead(mut self, policy: OnDead) { self.on_dead = Some(policy); }
    }

    /// Returns the time from the start of one message to the start of the next, in microseconds.
    pub(crate) fn every(&self) -> Option<i64> {
        let (messages, per) = self.rate?;
        Some(i64::try_from(per.as_micros() / u128::from(messages.max(1))).unwrap_or(i64::MAX))
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::none()
    }

    pub(crate) fn check(&self, scope: &Scope) -> Result<()> {
        match self.at_once {
            Some(0) => {
                return Err(Error::invalid("a limit lets at least 1 message be in progress; to let none pass, pause"));
            }
            Some(many) if many > AT_ONCE_MAX => {
                return Err(Error::invalid(format!("a limit lets at most {AT_ONCE_MAX} messages be in progress")));
            }
            _ => {}
        }
        if scope.is_of_lanes() && self.rate.is_some() {
            return Err(Error::invalid("a lane has no rate; limit the topic or the destination of its messages"));
        }
        if !scope.is_of_lanes() && self.on_dead.is_some() {
            return Err(Error::invalid("what a dead message does is set for lanes; others do not wait for it"));
        }
        if let Some((messages, per)) = self.rate {
            if messages == 0 || per.is_zero() || per > PER_MAX {
                return Err(Error::invalid("a rate is at least 1 message, in a time of up to 24 hours"));
            }
            if self.every().is_some_and(|every| every < i64::from(1_000_000 / PER_SECOND_MAX)) {
                return Err(Error::invalid(format!("a rate is at most {PER_SECOND_MAX} messages a second")));
            }
        }
        match self.burst {
            Some(_) if self.rate.is_none() => Err(Error::invalid("a burst belongs to a rate, and there is none")),
            Some(burst) if burst == 0 || burst > BURST_MAX => {
                Err(Error::invalid(format!("the burst is {burst} messages; 1 to {BURST_MAX} are allowed")))
            }
            _ => Ok(()),
        }
    }

    /// Reads what was stored: the time from one message to the next stands for the rate.
    pub(crate) fn read([at_once, every, burst, on_dead]: [Option<i64>; 4]) -> Option<Self> {
        let number = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let rate = every.and_then(|every| u64::try_from(every).ok()).map(|every| {
            // As many as in a second, a minute, an hour or a day without a remainder, or else one.
            let round = [1, 60, 3600, 86_400].map(|seconds| seconds * 1_000_000_u64);
            let whole = round.into_iter().find(|per| every > 0 && per / every > 0 && per % every < per / every);
            let per = whole.unwrap_or(every);
            (u32::try_from(per / every.max(1)).unwrap_or(1), Duration::from_micros(per))
        });
        let on_dead = on_dead.and_then(OnDead::read);
        let limit = Self { at_once: number(at_once), rate, burst: number(burst), on_dead };
        (!limit.is_none()).then_some(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_once = self.at_once.map(|messages| format!("{messages} at once"));
        let rate = self.rate.map(|(messages, per)| match self.burst {
            Some(burst) => format!("{messages} in {per:?} with a burst of {burst}"),
            None => format!("{messages} in {per:?}"),
        });
        let on_dead = self.on_dead.map(|policy| policy.to_string());
        let parts: Vec<_> = at_once.into_iter().chain(rate).chain(on_dead).collect();
        f.write_str(if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// Since when something is paused, and who paused it.
///
/// ```
/// fn described(pause: &postroom::operator::Pause) -> String {
///     format!("paused since {} by {}", pause.since, pause.by)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Pause {
    /// When it was paused.
    pub since: Timestamp,
    /// Who paused it.
    pub by: String,
    /// The reason, if one was given.
    pub why: Option<String>,
}

/// What an operator set for a queue or a part of it.
///
/// ```
/// use postroom::{Inbox, Outbox};
/// use postroom::operator::{Operator, Scope};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let billing = Scope::destination("billing")?;
/// outbox.queue().pause(billing.clone(), Operator::new("ada")?.because("they migrate")?).await?;
/// let rule = outbox.queue().rules().await?.remove(0);
/// assert_eq!(rule.scope, billing);
/// assert_eq!(rule.paused.unwrap().by, "ada");
/// assert!(outbox.queue().resume(billing, Operator::new("ada")?).await?);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// What it is about.
    pub scope: Scope,
    /// Set if it is paused.
    pub paused: Option<Pause>,
    /// Its limit, if there is one.
    pub limit: Option<Limit>,
    /// How many messages wait there, counted up to 10,000. Only counted for topics and destinations.
    pub waiting: u64,
}

impl Rule {
    /// Returns whether it says nothing any more. Then something remains to be done about its lanes.
    pub(crate) fn is_over(&self) -> bool {
        self.paused.is_none() && self.limit.is_none()
    }
}

/// A claim, within the rules of its queue.
#[derive(Debug, Default)]
pub(crate) struct Ruled {
    /// The claim without the places that are paused or have a limit; `None` if the queue is paused.
    pub(crate) request: Option<ClaimRequest>,
    /// The places that it covers and that have a limit.
    pub(crate) limited: Vec<(Place, Limit)>,
    /// The lanes whose rule was removed, and that nobody has looked at since.
    pub(crate) freed_lanes: Vec<Scope>,
}

impl Ruled {
    pub(crate) fn new(rules: &[Rule], request: &ClaimRequest) -> Self {
        let is_stopped = |rule: &Rule| rule.scope == Scope::Queue && rule.paused.is_some();
        if rules.iter().any(is_stopped) {
            return Self::default();
        }
        let places = request.places();
        let left_out: Vec<_> = rules.iter().filter_map(|rule| rule.scope.place().cloned()).collect();
        let runs = rules.iter().filter(|rule| rule.paused.is_none());
        let limited = runs.filter_map(|rule| Some((rule.scope.place()?.clone(), rule.limit?)));
        let freed = rules.iter().filter(|rule| rule.scope.is_of_lanes() && rule.is_over());
        Self {
            limited: limited.filter(|(place, _)| places.covers(place)).collect(),
            freed_lanes: freed.map(|rule| rule.scope.clone()).collect(),
            request: Some(match left_out.as_slice() {
                [] => request.clone(),
                left_out => request.clone().topics(places.without(left_out)),
            }),
        }
    }

    /// Returns whether there is nothing to do but to claim.
    pub(crate) fn is_plain(&self) -> bool {
        self.limited.is_empty() && self.freed_lanes.is_empty()
    }
}

/// How much of a limit is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    pub(crate) messages: usize,
    /// If there are none: when one may start. `None` if another one must end first.
    pub(crate) again_at: Option<Timestamp>,
}

impl Limit {
    /// Returns how many messages may start now. `due` is when the next one may start if there is no burst: the generic
    /// cell rate algorithm.
    pub(crate) fn allowance(&self, in_progress: u64, due: Timestamp, now: Timestamp) -> Allowance {
        let free = self.at_once.map_or(u64::MAX, |most| u64::from(most).saturating_sub(in_progress));
        let Some(every) = self.every() else {
            return Allowance { messages: usize::try_from(free).unwrap_or(usize::MAX), again_at: None };
        };
        let ahead = due.max(now).as_micros() - now.as_micros();
        let room = every.saturating_mul(i64::from(self.burst.unwrap_or(1)));
        let by_rate = u64::try_from((room - ahead).max(0) / every.max(1)).unwrap_or(0);
        let wait = u64::try_from(ahead - (room - every)).unwrap_or(0);
        Allowance {
            messages: usize::try_from(free.min(by_rate)).unwrap_or(usize::MAX),
            again_at: (free > 0 && by_rate == 0).then(|| now.plus(Duration::from_micros(wait))),
        }
    }

    /// Returns when the next message may start after that many started now.
    pub(crate) fn due_after(&self, started: usize, due: Timestamp, now: Timestamp) -> Timestamp {
        let every = u64::try_from(self.every().unwrap_or(0)).unwrap_or(0);
        due.max(now).plus(Duration::from_micros(every.saturating_mul(started as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::OwnerToken;
    use crate::queue::Topics;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_rate_spreads_messages_and_a_burst_does_not_add_to_it() {
        let limit = Limit::none().rate(10, SECOND).burst(3);
        let (mut due, mut started) = (at(0), 0);
        for tick in 0..100 {
            let now = at(1_000_000_000 + tick * 50_000);
            let allowance = limit.allowance(0, due, now);
            assert!(allowance.messages <= 3);
            due = limit.due_after(allowance.messages, due, now);
            started += allowance.messages;
        }
        assert_eq!(started, 3 + 49, "three at first, and then ten a second for 4.95 seconds");
        let now = at(1_000_000_000);
        assert_eq!(
            limit.allowance(0, at(1_000_300_000), now),
            Allowance { messages: 0, again_at: Some(at(1_000_100_000)) }
        );
    }

    #[test]
    fn what_is_in_progress_counts() {
        let limit = Limit::none().at_once(3);
        assert_eq!(limit.allowance(1, at(0), at(5)), Allowance { messages: 2, again_at: None });
        assert_eq!(limit.allowance(7, at(0), at(5)), Allowance { messages: 0, again_at: None });
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let bad = [
            Limit::none().at_once(0),
            Limit::none().at_once(AT_ONCE_MAX + 1),
            Limit::none().rate(0, SECOND),
            Limit::none().rate(1, Duration::ZERO),
            Limit::none().rate(1, PER_MAX * 2),
            Limit::none().rate(PER_SECOND_MAX + 200, SECOND),
            Limit::none().burst(2),
            Limit::none().rate(1, SECOND).burst(0),
        ];
        let (topic, lane) = (Scope::topic("a").unwrap(), Scope::lane("a").unwrap());
        assert!(bad.iter().all(|limit| limit.check(&topic).is_err()), "{bad:?}");
        assert!(Limit::none().rate(PER_SECOND_MAX, SECOND).burst(BURST_MAX).check(&topic).is_ok());
        assert!(Limit::none().rate(1, SECOND).check(&lane).is_err(), "a lane has no rate");
        assert!(Limit::none().on_dead(OnDead::Skip).check(&topic).is_err(), "others do not wait for the dead");
        assert!(Limit::none().at_once(AT_ONCE_MAX).on_dead(OnDead::Skip).check(&lane).is_ok());
        assert!(Scope::topic("").is_err() && Scope::destination("a\nb").is_err() && Scope::lane("").is_err());
    }

    #[test]
    fn a_limit_is_read_as_it_was_set() {
        for (messages, per) in [(1, 1), (10, 1), (100, 60), (7, 3600), (1, 7200), (9, 86_400), (300, 1)] {
            let set = Limit::none().rate(messages, Duration::from_secs(per));
            let read = Limit::read([None, set.every(), None, None]).unwrap();
            assert_eq!(read.every(), set.every(), "{read}");
        }
        let set = Limit::none().at_once(2).rate(300, SECOND).burst(5);
        assert_eq!(Limit::read([Some(2), set.every(), Some(5), None]), Some(set));
        assert_eq!(Limit::read([None; 4]), None);
        for policy in [OnDead::Block, OnDead::Skip, OnDead::Newest] {
            let read = Limit::read([None, None, None, Some(policy.code())]);
            assert_eq!(read, Some(Limit::none().on_dead(policy)));
        }
    }

    #[test]
    fn a_claim_leaves_out_what_is_paused_or_limited() {
        let rule = |scope, paused, limit| {
            let pause = Pause { since: at(1), by: "ada".into(), why: None };
            Rule { scope, paused: Some(pause).filter(|_| paused), limit, waiting: 0 }
        };
        let (a, b) = (Scope::topic("a").unwrap(), Scope::destination("b").unwrap());
        let rules = [rule(a, true, None), rule(b, false, Some(Limit::none().at_once(1)))];
        let request = ClaimRequest::new(OwnerToken::new(), SECOND, 10).unwrap();
        let ruled = Ruled::new(&rules, &request);
        let places = ruled.request.unwrap().places();
        assert!(!places.contains("a", None) && !places.contains("x", Some("b")) && places.contains("a", Some("c")));
        assert_eq!(ruled.limited.len(), 1);
        let only = request.clone().topics(Topics::only(["x"]).unwrap());
        assert!(Ruled::new(&rules, &only).limited.is_empty(), "it is not for that place");
        assert!(Ruled::new(&[rule(Scope::Queue, true, None)], &request).request.is_none());
        assert!(Ruled::new(&[], &request).request.is_some_and(|request| request.topics.is_none()));
    }

    #[test]
    fn a_rule_of_lanes_changes_no_claim() {
        let pause = Pause { since: at(1), by: "ada".into(), why: None };
        let lane = Scope::lane("order-7").unwrap();
        let rules = [Rule { scope: lane.clone(), paused: Some(pause), limit: None, waiting: 0 }];
        let ruled = Ruled::new(&rules, &ClaimRequest::new(OwnerToken::new(), SECOND, 10).unwrap());
        assert!(ruled.request.as_ref().is_some_and(|request| request.topics.is_none()) && ruled.is_plain());
        let over = Rule { scope: lane.clone(), paused: None, limit: None, waiting: 0 };
        let ruled = Ruled::new(&[over], &ClaimRequest::new(OwnerToken::new(), SECOND, 10).unwrap());
        assert_eq!(ruled.freed_lanes, [lane], "somebody must look at it");
    }
}
