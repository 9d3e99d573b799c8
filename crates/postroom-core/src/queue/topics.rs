//! Which messages a claim is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::check_name;
use crate::queue::Place;
use crate::support::error::{Error, Result};

/// The most topics that can be named.
const NAMES_MAX: usize = 1000;
/// Stands between names where a database is given all of them as one text.
const SEPARATOR: char = '\n';

/// Which messages a claim is for, by their topics. Messages that go to other services are of no topic here, whatever
/// theirs is: who handles messages must not take them.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::message::OwnerToken;
/// use postroom::queue::Topics;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// for topic in ["order.placed", "order.paid"] {
///     outbox.enqueue(NewMessage::new(topic, "{}")).await?;
/// }
/// let paid = Topics::only(["order.paid"])?;
/// let (owner, lease) = (OwnerToken::new(), Duration::from_secs(30));
/// assert_eq!(outbox.queue().claim_topics(owner, lease, 10, &paid).await?.claimed.len(), 1);
/// let rest = outbox.queue().claim_topics(owner, lease, 10, &paid.rest()).await?.claimed;
/// assert_eq!(rest[0].message.as_ref().map(|message| message.topic.as_str()), Ok("order.placed"));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Topics {
    /// Of the messages that are handled here, by topic.
    topics: Names,
    /// Of the messages that go to other services, by destination.
    destinations: Names,
}

/// These names alone, or all but these.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Names {
    names: Arc<[String]>,
    only: bool,
}

impl Names {
    fn only(names: Arc<[String]>) -> Self {
        Self { names, only: true }
    }

    fn except(names: Arc<[String]>) -> Self {
        Self { names, only: false }
    }

    fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name) == self.only
    }

    fn rest(&self) -> Self {
        Self { only: !self.only, ..self.clone() }
    }

    fn without<'n>(&'n self, others: impl Iterator<Item = &'n str> + Clone) -> Self {
        let names = self.names.iter().map(String::as_str);
        let names: BTreeSet<&str> = match self.only {
            true => names.filter(|name| !others.clone().any(|other| other == *name)).collect(),
            false => names.chain(others.filter(|name| !name.contains(SEPARATOR))).collect(),
        };
        Self { names: names.into_iter().take(NAMES_MAX).map(str::to_owned).collect(), only: self.only }
    }

    /// What a statement is given: the names between line breaks, and the switch.
    fn values(&self) -> (String, i64) {
        let separated = self.names.iter().map(|name| format!("{name}{SEPARATOR}"));
        (format!("{SEPARATOR}{}", separated.collect::<String>()), self.only.into())
    }
}

impl Topics {
    /// Messages that are handled here, with one of these topics.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Ok(Self { topics: Names::only(checked(names)?), destinations: Names::only([].into()) })
    }

    /// Messages that are handled here, with any topic but these.
    pub fn except<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Ok(Self { topics: Names::except(checked(names)?), destinations: Names::only([].into()) })
    }

    /// Every message.
    pub(crate) fn all() -> Self {
        Self { topics: Names::except([].into()), destinations: Names::except([].into()) }
    }

    /// The messages for one place; none when its name cannot be told apart from others.
    pub(crate) fn of(place: &Place) -> Option<Self> {
        let (none, one) = (Names::only([].into()), Names::only([place.name().to_owned()].into()));
        let is_told_apart = !place.name().contains(SEPARATOR);
        is_told_apart.then_some(match place {
            Place::Topic(_) => Self { topics: one, destinations: none },
            Place::Service(_) => Self { topics: none, destinations: one },
        })
    }

    /// Every message that these are not, those to other services among them.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self { topics: self.topics.rest(), destinations: self.destinations.rest() }
    }

    /// These without what is for one of those places.
    pub(crate) fn without(&self, places: &[Place]) -> Self {
        let names = |kind: &'static str| places.iter().filter(move |place| place.kind() == kind).map(Place::name);
        Self { topics: self.topics.without(names("topic")), destinations: self.destinations.without(names("service")) }
    }

    /// Whether a message is among them.
    pub fn contains(&self, topic: &str, destination: Option<&str>) -> bool {
        match destination {
            Some(destination) => self.destinations.contains(destination),
            None => self.topics.contains(topic),
        }
    }

    /// What a statement is given: topics and destinations, each as names between line breaks and a switch.
    pub(crate) fn values(&self) -> [(String, i64); 2] {
        [self.topics.values(), self.destinations.values()]
    }
}

fn checked<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Arc<[String]>> {
    let names: Arc<[String]> = names.into_iter().map(Into::into).collect();
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(format!("{} topics are named; at most {NAMES_MAX} can be", names.len())));
    }
    for name in names.iter() {
        check_name("a topic", name)?;
        if name.contains(SEPARATOR) {
            return Err(Error::invalid("a topic with a line break cannot be named here"));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_elsewhere_is_never_among_those_that_are_handled_here() {
        let (only, except) = (Topics::only(["a"]).unwrap(), Topics::except(["a"]).unwrap());
        for (topic, destination, in_only, in_except) in
            [("a", None, true, false), ("b", None, false, true), ("a", Some("x"), false, false)]
        {
            assert_eq!(only.contains(topic, destination), in_only, "{topic} {destination:?}");
            assert_eq!(only.rest().contains(topic, destination), !in_only, "{topic} {destination:?}");
            assert_eq!(except.contains(topic, destination), in_except, "{topic} {destination:?}");
            assert_eq!(except.rest().contains(topic, destination), !in_except, "{topic} {destination:?}");
        }
        assert_eq!(Topics::only(["a", "b"]).unwrap().values(), [("\na\nb\n".into(), 1), ("\n".into(), 1)]);
    }

    #[test]
    fn what_is_for_a_held_place_is_left_out_and_nothing_else() {
        let held = [Place::Service("x".into()), Place::Topic("a".into())];
        let all = Topics::all().without(&held);
        let left = [("a", None), ("a", Some("x")), ("b", Some("x"))];
        let taken = [("b", None), ("a", Some("y")), ("x", None)];
        assert!(left.iter().all(|(topic, to)| !all.contains(topic, *to)));
        assert!(taken.iter().all(|(topic, to)| all.contains(topic, *to)));
        let only = Topics::only(["a", "b"]).unwrap().without(&held);
        assert!(!only.contains("a", None) && only.contains("b", None));
        assert!(Topics::of(&held[0]).unwrap().contains("any", Some("x")));
        assert!(!Topics::of(&held[1]).unwrap().contains("a", Some("x")));
    }

    #[test]
    fn names_that_no_statement_could_tell_apart_are_refused() {
        assert!(Topics::only(["a\nb"]).is_err() && Topics::only([""]).is_err());
        assert!(Topics::except(vec!["a"; NAMES_MAX + 1]).is_err());
        assert!(Topics::of(&Place::Topic("a\nb".into())).is_none());
    }
}
