//! What operators set for lanes. Pure.

use std::fmt;

use crate::queue::{Rule, Scope};

/// What becomes of a lane when a message of it dies.
///
/// ```
/// use postroom::operator::{Limit, OnDead};
///
/// let limit = Limit::none().at_once(2).on_dead(OnDead::Skip);
/// assert_eq!(limit.to_string(), "2 at once, dead messages are skipped");
/// assert_eq!("newest".parse::<OnDead>()?, OnDead::Newest);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum OnDead {
    /// The lane waits behind the dead message, until somebody requeues or dismisses it, or it is deleted. This is so
    /// where nothing is set.
    #[default]
    Block,
    /// The others go on. If the dead message is requeued after that, it goes behind them.
    Skip,
    /// Of the messages that wait for their turn at that moment, only the newest goes on. The others are dismissed, and
    /// the dead one stays a dead letter.
    Newest,
}

impl OnDead {
    const ALL: [Self; 3] = [Self::Block, Self::Skip, Self::Newest];

    /// Returns the name, in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Skip => "skip",
            Self::Newest => "newest",
        }
    }

    /// Returns the number that the databases store.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Block => 0,
            Self::Skip => 1,
            Self::Newest => 2,
        }
    }

    pub(crate) fn read(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.code() == code)
    }
}

impl fmt::Display for OnDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "a dead message blocks",
            Self::Skip => "dead messages are skipped",
            Self::Newest => "after a dead message only the newest goes on",
        })
    }
}

impl std::str::FromStr for OnDead {
    type Err = crate::support::error::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        found.ok_or_else(|| crate::support::error::Error::invalid("a policy is block, skip or newest"))
    }
}

/// What is set for one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneRule {
    /// How many of its messages may be in progress; none if it is paused.
    pub(crate) places: usize,
    pub(crate) on_dead: OnDead,
}

impl LaneRule {
    /// Returns the rule of a lane whose first message has this topic. What is set for the lane itself wins.
    pub(crate) fn of<'r>(rules: impl Iterator<Item = &'r Rule> + Clone, lane: &str, topic: &str) -> Self {
        let about = |wanted: &dyn Fn(&Scope) -> bool| rules.clone().find(|rule| wanted(&rule.scope));
        let its_own = about(&|scope| matches!(scope, Scope::Lane(name) if name == lane));
        let shared = about(&|scope| matches!(scope, Scope::Lanes(name) if name == topic));
        let both = || its_own.into_iter().chain(shared);
        let places = both().find_map(|rule| rule.limit?.at_once).unwrap_or(1);
        let is_paused = both().any(|rule| rule.paused.is_some());
        Self {
            places: if is_paused { 0 } else { usize::try_from(places).unwrap_or(usize::MAX) },
            on_dead: both().find_map(|rule| rule.limit?.on_dead).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Limit;

    #[test]
    fn what_is_set_for_a_lane_wins_over_what_is_set_for_a_topic() {
        let rule = |scope, limit| Rule { scope, paused: None, limit: Some(limit), waiting: 0 };
        let rules = [
            rule(Scope::lane("x").unwrap(), Limit::none().at_once(3)),
            rule(Scope::lanes("a").unwrap(), Limit::none().at_once(2).on_dead(OnDead::Skip)),
        ];
        let of = |lane, topic| {
            let rule = LaneRule::of(rules.iter(), lane, topic);
            (rule.places, rule.on_dead)
        };
        assert_eq!(of("x", "a"), (3, OnDead::Skip));
        assert_eq!(of("y", "a"), (2, OnDead::Skip));
        assert_eq!(of("x", "b"), (3, OnDead::Block));
        assert_eq!(of("y", "b"), (1, OnDead::Block));
    }
}
