//! The services that a receiver accepts messages from.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::allowed::Allowed;
use super::{Hook, Receiver};
use crate::wire::Keys;
use crate::wire::grammar;
use postroom_core::support::error::{Error, Result};
use postroom_core::work::handler::Backend;

/// A service whose messages are accepted, and how it signs them.
///
/// Requests must be signed by v2. You can allow a foreign peer to use the weaker v1; once it has used v2, v1 is
/// refused.
///
/// ```
/// use postroom::Handlers;
/// use postroom::services::{Key, Keys, Receiver, Secret, Source};
/// use postroom::store::{Memory, MemoryStore};
///
/// let keys = Keys::from(Key::new("2026-11", Secret::parse(&Secret::generate())?)?);
/// let orders = Source::new("orders", keys.clone());
/// let receiver = Receiver::<Memory>::new("inventory", MemoryStore::new(), Handlers::new(), [orders])?;
/// // `keys.replace(…)` changes the keys while the receiver runs.
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    keys: Keys,
    v1: bool,
    window: Option<Duration>,
    answers: bool,
    topics: Allowed,
}

impl Source {
    /// Creates a source with the keys it shares with us. Keep a clone of the keys to change them later.
    pub fn new(name: impl Into<String>, keys: impl Into<Keys>) -> Self {
        Self {
            name: name.into(),
            keys: keys.into(),
            v1: false,
            window: None,
            answers: true,
            topics: Allowed::default(),
        }
    }

    postroom_core::setters! {
        /// Accepts v1 signatures as well, until the source uses v2. They cover neither the time nor the receiver:
        /// somebody who captured a message can replay it once the inbox no longer recognises it.
        pub fn allow_v1(mut self) { self.v1 = true; }

        /// Sets the dedupe window for this source, instead of the receiver's own.
        pub fn window(mut self, window: Duration) { self.window = Some(window); }

        /// Sends no answers back in queued mode, for a source that cannot be reached from here.
        pub fn without_answers(mut self) { self.answers = false; }
    }

    /// Allows only these topics. A name that ends with `*` allows every topic with that prefix. By default, every
    /// topic is allowed.
    #[must_use]
    pub fn topics<N: Into<String>>(mut self, topics: impl IntoIterator<Item = N>) -> Self {
        self.topics = Allowed::only(topics);
        self
    }

    pub(super) fn checked(self) -> Result<(String, Known)> {
        grammar::service("a source's name", &self.name)?;
        if self.keys.is_empty() {
            return Err(Error::invalid(format!("the source {} has no key", self.name)));
        }
        self.topics.check(&self.name)?;
        let Self { name, keys, v1, window, answers, topics } = self;
        let known = Known { keys, v1, uses_v2: Arc::default(), window, answers, topics };
        Ok((name, known))
    }
}

/// A source, and what the receiver has learned about it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) keys: Keys,
    v1: bool,
    uses_v2: Arc<AtomicBool>,
    pub(super) window: Option<Duration>,
    answers: bool,
    topics: Allowed,
}

impl Known {
    pub(super) fn may_send(&self, topic: &str) -> bool {
        self.topics.admits(topic)
    }

    /// Returns the name of another source that has one of its secrets.
    pub(super) fn shares_a_key<'a>(&self, name: &str, sources: &'a Sources) -> Option<&'a str> {
        let mut others = sources.iter().filter(|(other, _)| *other != name);
        others.find(|(_, other)| self.keys.shares_a_secret(&other.keys)).map(|(other, _)| other.as_str())
    }

    /// Returns whether answers go back to it.
    pub(super) fn is_answered(&self) -> bool {
        self.answers
    }

    /// Records that the source uses v2. From now on v1 would be a downgrade.
    pub(super) fn has_used_v2(&self) {
        self.uses_v2.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_use_v1(&self) -> bool {
        self.v1 && !self.uses_v2.load(Ordering::Relaxed)
    }
}

/// The sources of a receiver, by name.
pub(super) type Sources = HashMap<String, Known>;

/// Checks the sources. A source that existed before keeps what the receiver has learned about it.
pub(super) fn known(
    sources: impl IntoIterator<Item = Source>,
    before: &Sources,
    hooks: &HashMap<String, Arc<Hook>>,
) -> Result<Sources> {
    let mut known = Sources::new();
    for source in sources {
        let (name, mut source) = source.checked()?;
        if let Some(before) = before.get(&name) {
            source.uses_v2 = before.uses_v2.clone();
        }
        if known.contains_key(&name) {
            return Err(Error::invalid(format!("there are two sources named {name}")));
        }
        // Messages of a source and of a hook are both recognised by that name, so it must be unique.
        if hooks.contains_key(&name) {
            return Err(Error::invalid(format!("{name} is both a source and a hook")));
        }
        known.insert(name, source);
    }
    check_v1(&known)?;
    Ok(known)
}

impl<B: Backend> Receiver<B> {
    /// Replaces all sources. Requests that are being verified still use the old ones.
    ///
    /// ```
    /// use postroom::Handlers;
    /// use postroom::services::{Key, Receiver, Secret, Source};
    /// use postroom::store::{Memory, MemoryStore};
    ///
    /// let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?;
    /// let orders = Source::new("orders", key);
    /// let receiver =
    ///     Receiver::<Memory>::new("inventory", MemoryStore::new(), Handlers::new(), [orders.clone().allow_v1()])?;
    /// // The source speaks v2 by now.
    /// receiver.replace_sources([orders])?;
    /// # Ok::<(), postroom::Error>(())
    /// ```
    pub fn replace_sources(&self, sources: impl IntoIterator<Item = Source>) -> Result<()> {
        let mut current = self.0.sources.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(known(sources, &current, &self.hooks())?);
        Ok(())
    }

    /// Checks these sources without using them, as [`replace_sources`](Self::replace_sources) would.
    ///
    /// ```
    /// use postroom::Handlers;
    /// use postroom::services::{Key, Receiver, Secret, Source};
    /// use postroom::store::{Memory, MemoryStore};
    ///
    /// let orders = Source::new("orders", Key::new("2026-11", Secret::parse(&Secret::generate())?)?);
    /// let receiver = Receiver::<Memory>::new("inventory", MemoryStore::new(), Handlers::new(), [])?;
    /// assert!(receiver.check_sources([orders.clone()]).is_ok());
    /// assert!(receiver.check_sources([orders.clone(), orders]).is_err());
    /// # Ok::<(), postroom::Error>(())
    /// ```
    pub fn check_sources(&self, sources: impl IntoIterator<Item = Source>) -> Result<()> {
        known(sources, &self.0.sources(), &self.hooks()).map(|_| ())
    }
}

/// Checks that no source with v1 shares a secret, because the sources could not be distinguished.
fn check_v1(sources: &Sources) -> Result<()> {
    for (name, source) in sources.iter().filter(|(_, source)| source.v1) {
        if let Some(other) = source.shares_a_key(name, sources) {
            let why = "share a secret; with v1 each source needs its own";
            return Err(Error::invalid(format!("the sources {name} and {other} {why}")));
        }
    }
    Ok(())
}
