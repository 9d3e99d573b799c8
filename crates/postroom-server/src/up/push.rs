//! The handler URLs by topic. They can be replaced while messages are in progress.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use postroom::queue::{Cause, Fault};
use postroom::worker::{Delivery, Endpoint};
use postroom::{HandlerError, HandlerResult, Message};

use crate::config::{EVERY, Route, Worker};

/// With at least this many URLs, one URL may use one of this many parts of the worker's concurrency.
const PARTS: usize = 4;

/// The current handlers. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct Routes(Arc<RwLock<Arc<Current>>>);

#[derive(Default)]
struct Current {
    by_topic: BTreeMap<String, Route>,
    /// How many messages may be with each URL at once.
    limits: HashMap<String, usize>,
}

impl Routes {
    /// Replaces the handlers. Messages in progress keep their old handler.
    pub(super) fn replace(&self, handlers: Vec<(String, Route)>) {
        let by_topic: BTreeMap<_, _> = handlers.into_iter().collect();
        let mut limits = HashMap::new();
        for route in by_topic.values() {
            let limit = limits.entry(route.address.clone()).or_insert(route.limit);
            *limit = route.limit.min(*limit);
        }
        let current = Current { by_topic, limits };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
    }

    fn current(&self) -> Arc<Current> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The URL of this topic, with its share of the worker.
    pub(super) fn endpoint(&self, topic: &str, worker: &Worker) -> Option<Endpoint> {
        let current = self.current();
        let route = current.route(topic)?;
        let limit = current.limits.get(&route.address).copied().unwrap_or(route.limit);
        let part = worker.concurrency.div_ceil(current.limits.len().clamp(1, PARTS));
        let share = worker.per_place.unwrap_or(part);
        Some(Endpoint::new(&route.address, limit.min(share)))
    }

    /// Posts a message to its handler. A message without a handler waits.
    pub(super) async fn handle(&self, message: &Message) -> HandlerResult<Option<String>> {
        let current = self.current();
        let Some(route) = current.route(&message.topic) else {
            let why = format!("no handler for the topic {}", message.topic);
            return Err(Fault::new(Cause::NoHandler, why).into());
        };
        match route.url.push(message).await {
            Delivery::Accepted { response } => Ok(response),
            Delivery::Failed(fault) => Err(fault.into()),
            _ => Err(HandlerError::unavailable("the handler is unreachable")),
        }
    }
}

impl Current {
    fn route(&self, topic: &str) -> Option<&Route> {
        self.by_topic.get(topic).or_else(|| self.by_topic.get(EVERY))
    }
}
