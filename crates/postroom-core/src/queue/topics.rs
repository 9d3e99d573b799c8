//! Which messages a claim is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::check_name;
use crate::queue::Place;
use crate::support::error::{Error, Result};

/// The largest number of topics in a claim.
const NAMES_MAX: usize = 1000;
/// The separator of names where a database gets all of them as one text.
const SEPARATOR: char = '\n';

/// Which messages a claim is for, by topic. Messages to other services never count as messages of a topic here, so a
/// handler cannot claim them.
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
    /// Which messages that are handled here, by topic.
    topics: Names,
    /// Which messages to other services, by destination.
    destinations: Names,
}

/// Only these names, or all except these.
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

    /// Returns the arguments of a statement: the names separated by line breaks, and the switch.
    fn values(&self) -> (String, i64) {
        let separated = self.names.iter().map(|name| format!("{name}{SEPARATOR}"));
        (format!("{SEPARATOR}{}", separated.collect::<String>()), self.only.into())
    }
}

impl Topics {
    /// Selects messages that are handled here, with one of these topics.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Ok(Self { topics: Names::only(checked(names)?), destinations: Names::only([].into()) })
    }

    /// Selects messages that are handled here, with any topic except these.
    pub fn except<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Ok(Self { topics: Names::except(checked(names)?), destinations: Names::only([].into()) })
    }

    /// Selects every message.
    pub(crate) fn all() -> Self {
        Self { topics: Names::except([].into()), destinations: Names::except([].into()) }
    }

    /// Selects the messages of one place, or returns `None` if its name cannot be written as a list.
    pub(crate) fn of(place: &Place) -> Option<Self> {
        let (none, one) = (Names::only([].into()), Names::only([place.name().to_owned()].into()));
        let is_distinct = !place.name().contains(SEPARATOR);
        is_distinct.then_some(match place {
            Place::Topic(_) => Self { topics: one, destinations: none },
            Place::Service(_) => Self { topics: none, destinations: one },
        })
    }

    /// Selects every other message, including those to other services.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self { topics: self.topics.rest(), destinations: self.destinations.rest() }
    }

    /// Selects these messages without those of the given places.
    pub(crate) fn without(&self, places: &[Place]) -> Self {
        let names = |kind: &'static str| places.iter().filter(move |place| place.kind() == kind).map(Place::name);
        Self { topics: self.topics.without(names("topic")), destinations: self.destinations.without(names("service")) }
    }

    /// Returns whether a message is selected.
    pub fn contains(&self, topic: &str, destination: Option<&str>) -> bool {
        match destination {
            Some(destination) => self.destinations.contains(destination),
            None => self.topics.contains(topic),
        }
    }

    /// Returns whether the messages of a place are selected.
    pub(crate) fn covers(&self, place: &Place) -> bool {
        match place {
            Place::Topic(topic) => self.topics.contains(topic),
            Place::Service(destination) => self.destinations.contains(destination),
        }
    }

    /// Returns the arguments of a statement: topics and destinations, each as names separated by line breaks and a
    /// switch.
    pub(crate) fn values(&self) -> [(String, i64); 2] {
        [self.topics.values(), self.destinations.values()]
    }
}

fn checked<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Arc<[String]>> {
    let names: Arc<[String]> = names.into_iter().map(Into::into).collect();
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(format!("there are {} topics; at most {NAMES_MAX} are allowed", names.len())));
    }
    for name in names.iter() {
        check_name("a topic", name)?;
        if name.contains(SEPARATOR) {
            return Err(Error::invalid("a topic must not contain a line break here"));
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
