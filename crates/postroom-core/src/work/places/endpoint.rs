//! Where the handlers of several topics are reached together.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Where handlers are reached that run elsewhere, in another program for example. However many topics are handled
/// there, it gets no more messages at once than this.
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
    /// The endpoint of this name, which takes so many messages at once, at least one.
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

    /// The slots that this topic shares with others; none when it does not.
    pub(crate) fn slots(&self, topic: &str) -> Option<Arc<Semaphore>> {
        let endpoint = self.find.as_ref()?(topic)?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(endpoint.concurrency));
        if let Some(known) = slots.get(&endpoint) {
            return Some(known.clone());
        }
        // Endpoints that changed are not kept for ever.
        slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        Some(slots.entry(endpoint.clone()).or_insert_with(new).clone())
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").finish_non_exhaustive()
    }
}
