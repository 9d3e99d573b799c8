//! Endpoints that the handlers of several topics share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Where handlers run elsewhere, for example in another program. The endpoint gets at most this many messages at once,
/// however many topics are handled there.
///
/// ```
/// use postroom::WorkerOptions;
/// use postroom::worker::Endpoint;
///
/// let options = WorkerOptions::default().endpoints(|topic| {
///     topic.starts_with("billing.").then(|| Endpoint::new("http://127.0.0.1:8080/messages", 4))
/// });
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    name: String,
    concurrency: usize,
}

impl Endpoint {
    /// Creates an endpoint of this name that accepts this many messages at once, at least one.
    pub fn new(name: impl Into<String>, concurrency: usize) -> Self {
        Self { name: name.into(), concurrency: concurrency.clamp(1, Semaphore::MAX_PERMITS) }
    }
}

type Find = dyn Fn(&str) -> Option<Endpoint> + Send + Sync;

/// The endpoint of each topic, and how many messages it may still get. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Endpoints {
    find: Option<Arc<Find>>,
    slots: Arc<Mutex<HashMap<Endpoint, Arc<Semaphore>>>>,
}

impl Endpoints {
    pub(crate) fn new(find: impl Fn(&str) -> Option<Endpoint> + Send + Sync + 'static) -> Self {
        Self { find: Some(Arc::new(find)), slots: Arc::default() }
    }

    /// Returns the slots that this topic shares with others, or `None` if it shares none.
    pub(crate) fn slots(&self, topic: &str) -> Option<Arc<Semaphore>> {
        let endpoint = self.find.as_ref()?(topic)?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(endpoint.concurrency));
        if let Some(known) = slots.get(&endpoint) {
            return Some(known.clone());
        }
        // Endpoints that are no longer used are removed.
        slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        Some(slots.entry(endpoint.clone()).or_insert_with(new).clone())
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").finish_non_exhaustive()
    }
}
