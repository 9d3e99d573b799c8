//! What operators set for a queue or for a part of it: pauses and limits. Pure.

use std::fmt;
use std::time::Duration;

use crate::message::check_name;
use crate::queue::{ClaimRequest, Place};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// The most messages that a limit may let pass in a second. Above this, the time from one to the next is too short to
/// be exact.
const PER_SECOND_MAX: u32 = 10_000;
/// The longest time of a rate.
const PER_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most messages that may start at once, after a rest.
const BURST_MAX: u32 = 1_000_000;

/// A queue, or a part of it, that an operator pauses or limits.
///
/// ```
/// use postroom::operator::Scope;
///
/// assert_eq!(Scope::topic("order.paid")?.to_string(), "the topic order.paid");
/// assert_eq!(Scope::destination("billing")?.to_string(), "billing");
/// assert_eq!(Scope::Queue.to_string(), "the whole queue");
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Scope {
    /// All messages of the queue.
    Queue,
    /// The messages to another service, or those of a topic that is handled here.
    Place(Place),
}

impl Scope {
    /// Returns the messages of a topic that is handled here.
    pub fn topic(name: impl Into<String>) -> Result<Self> {
        Self::named("a topic", name.into(), Place::Topic)
    }

    /// Returns the messages to another service.
    pub fn destination(name: impl Into<String>) -> Result<Self> {
        Self::named("a destination", name.into(), Place::Service)
    }

    fn named(what: &str, name: String, place: fn(String) -> Place) -> Result<Self> {
        check_name(what, &name)?;
        if name.contains('\n') {
            return Err(Error::invalid(format!("{what} must not contain a line break here")));
        }
        Ok(Self::Place(place(name)))
    }

    /// Returns `queue`, `service` or `topic`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Place(place) => place.kind(),
        }
    }

    /// Returns the name of the service or topic. A whole queue has none.
    pub fn name(&self) -> &str {
        match self {
            Self::Queue => "",
            Self::Place(place) => place.name(),
        }
    }

    /// Returns the place, unless it is the whole queue.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Queue => None,
            Self::Place(place) => Some(place),
        }
    }

    pub(crate) fn read(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "queue" => Some(Self::Queue),
            _ => Place::read(kind, name).map(Self::Place),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("the whole queue"),
            Self::Place(place) => place.fmt(f),
        }
    }
}

/// How many messages of a place may be in progress at once, and how many may start in a time, over all workers of all
/// processes.
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
    }

    /// Returns the time from the start of one message to the start of the next, in microseconds.
    pub(crate) fn every(&self) -> Option<i64> {
        let (messages, per) = self.rate?;
        Some(i64::try_from(per.as_micros() / u128::from(messages.max(1))).unwrap_or(i64::MAX))
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::none()
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.at_once == Some(0) {
            return Err(Error::invalid("a limit lets at least 1 message be in progress; to let none pass, pause"));
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
    pub(crate) fn read(at_once: Option<i64>, every: Option<i64>, burst: Option<i64>) -> Option<Self> {
        let number = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let rate = every.and_then(|every| u64::try_from(every).ok()).map(|every| {
            // As many as in a second, a minute, an hour or a day without a remainder, or else one.
            let round = [1, 60, 3600, 86_400].map(|seconds| seconds * 1_000_000_u64);
            let whole = round.into_iter().find(|per| every > 0 && per / every > 0 && per % every < per / every);
            let per = whole.unwrap_or(every);
            (u32::try_from(per / every.max(1)).unwrap_or(1), Duration::from_micros(per))
        });
        let limit = Self { at_once: number(at_once), rate, burst: number(burst) };
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
        let parts: Vec<_> = at_once.into_iter().chain(rate).collect();
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
    /// How many messages wait there, counted up to 10,000. Not counted for a whole queue.
    pub waiting: u64,
}

/// A claim, within the rules of its queue.
#[derive(Debug, Default)]
pub(crate) struct Ruled {
    /// The claim without the places that are paused or have a limit; `None` if the queue is paused.
    pub(crate) request: Option<ClaimRequest>,
    /// The places that it covers and that have a limit.
    pub(crate) limited: Vec<(Place, Limit)>,
}

impl Ruled {
    pub(crate) fn new(rules: &[Rule], request: &ClaimRequest) -> Self {
        let is_stopped = |rule: &Rule| rule.scope == Scope::Queue && rule.paused.is_some();
        if rules.is_empty() || rules.iter().any(is_stopped) {
            return Self { request: rules.is_empty().then(|| request.clone()), limited: Vec::new() };
        }
        let places = request.places();
        let left_out: Vec<_> = rules.iter().filter_map(|rule| rule.scope.place().cloned()).collect();
        let runs = rules.iter().filter(|rule| rule.paused.is_none());
        let limited = runs.filter_map(|rule| Some((rule.scope.place()?.clone(), rule.limit?)));
        Self {
            limited: limited.filter(|(place, _)| places.covers(place)).collect(),
            request: Some(request.clone().topics(places.without(&left_out))),
        }
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
            Limit::none().rate(0, SECOND),
            Limit::none().rate(1, Duration::ZERO),
            Limit::none().rate(1, PER_MAX * 2),
            Limit::none().rate(PER_SECOND_MAX + 200, SECOND),
            Limit::none().burst(2),
            Limit::none().rate(1, SECOND).burst(0),
        ];
        assert!(bad.iter().all(|limit| limit.check().is_err()), "{bad:?}");
        assert!(Limit::none().rate(PER_SECOND_MAX, SECOND).burst(BURST_MAX).check().is_ok());
        assert!(Scope::topic("").is_err() && Scope::destination("a\nb").is_err());
    }

    #[test]
    fn a_limit_is_read_as_it_was_set() {
        for (messages, per) in [(1, 1), (10, 1), (100, 60), (7, 3600), (1, 7200), (9, 86_400), (300, 1)] {
            let set = Limit::none().rate(messages, Duration::from_secs(per));
            let read = Limit::read(None, set.every(), None).unwrap();
            assert_eq!(read.every(), set.every(), "{read}");
        }
        let set = Limit::none().at_once(2).rate(300, SECOND).burst(5);
        assert_eq!(Limit::read(Some(2), set.every(), Some(5)), Some(set));
        assert_eq!(Limit::read(None, None, None), None);
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
}
