//! Which messages a claim is for.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::check_name;

/// The most topics that can be named.
const NAMES_MAX: usize = 1000;
/// Stands between names where a database is given all of them as one text.
const SEPARATOR: char = '\n';

/// Which messages a claim is for, by their topics. Messages that go to other services are of no topic here, whatever
/// theirs is: who handles messages must not take them.
///
/// ```
/// use std::time::Duration;
/// use postroom::{MemoryStore, NewMessage, Outbox, OwnerToken, Topics};
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topics {
    names: Arc<[String]>,
    /// Whether the names are those that are meant, or those that are not.
    named: bool,
    /// Whether what is meant is taken, or left.
    taken: bool,
}

impl Topics {
    /// Messages that are handled here, with one of these topics.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Self::new(names, true)
    }

    /// Messages that are handled here, with any topic but these.
    pub fn except<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        Self::new(names, false)
    }

    fn new<N: Into<String>>(names: impl IntoIterator<Item = N>, named: bool) -> Result<Self> {
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
        Ok(Self { names, named, taken: true })
    }

    /// Every message that these are not, those to other services among them.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self { taken: !self.taken, ..self.clone() }
    }

    /// Whether a message is among them.
    pub fn contains(&self, topic: &str, destination: Option<&str>) -> bool {
        let is_named = self.names.iter().any(|name| name == topic);
        (destination.is_none() && is_named == self.named) == self.taken
    }

    /// What a statement is given: the names between line breaks, and the two switches.
    pub(crate) fn values(&self) -> (String, i64, i64) {
        let separated = self.names.iter().map(|name| format!("{name}{SEPARATOR}"));
        (format!("{SEPARATOR}{}", separated.collect::<String>()), self.named.into(), self.taken.into())
    }
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
        assert_eq!(Topics::only(["a", "b"]).unwrap().values(), ("\na\nb\n".into(), 1, 1));
    }

    #[test]
    fn names_that_no_statement_could_tell_apart_are_refused() {
        assert!(Topics::only(["a\nb"]).is_err() && Topics::only([""]).is_err());
        assert!(Topics::except(vec!["a"; NAMES_MAX + 1]).is_err());
    }
}
