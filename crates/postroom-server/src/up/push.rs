//! Handlers that are reached by a URL, by topic. They can be replaced while messages are on their way.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use postroom::{Cause, Delivery, Fault, HandlerError, HandlerResult, Message, PushUrl};
use tokio::sync::Semaphore;

use crate::config::EVERY;

/// So long a message waits in hand for its handler; then it goes back and others get their turn.
const PATIENCE: Duration = Duration::from_millis(500);

/// The handlers at this moment. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct Routes(Arc<RwLock<Arc<Current>>>);

#[derive(Default)]
struct Current {
    by_topic: BTreeMap<String, Route>,
    /// Services fetch some topics: others wait for a handler, even if there is none at all.
    some_are_fetched: bool,
}

struct Route {
    url: PushUrl,
    limit: usize,
    slots: Semaphore,
}

impl Routes {
    /// From now on these. A message that is on its way keeps the one it left with.
    pub(super) fn replace(&self, handlers: Vec<(String, PushUrl, usize)>, some_are_fetched: bool) {
        let routes = handlers.into_iter().map(|(topic, url, limit)| {
            (topic, Route { url, limit, slots: Semaphore::new(limit.min(Semaphore::MAX_PERMITS)) })
        });
        let current = Current { by_topic: routes.collect(), some_are_fetched };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
    }

    fn current(&self) -> Arc<Current> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Posts a message to its handler; none when there are no handlers at all.
    pub(super) async fn handle(&self, message: &Message) -> Option<HandlerResult<Option<String>>> {
        let current = self.current();
        let routes = &current.by_topic;
        if routes.is_empty() && !current.some_are_fetched {
            return None;
        }
        let Some(route) = routes.get(&message.topic).or_else(|| routes.get(EVERY)) else {
            let why = format!("no handler for the topic {}", message.topic);
            return Some(Err(Fault::new(Cause::NoHandler, why).into()));
        };
        Some(route.push(message).await)
    }
}

impl Route {
    async fn push(&self, message: &Message) -> HandlerResult<Option<String>> {
        let Ok(Ok(_permit)) = tokio::time::timeout(PATIENCE, self.slots.acquire()).await else {
            let why = format!("{} messages are with the handler already", self.limit);
            return Err(HandlerError::postpone(PATIENCE, why));
        };
        match self.url.push(message).await {
            Delivery::Accepted { response } => Ok(response),
            Delivery::Failed(fault) => Err(fault.into()),
            _ => Err(HandlerError::unavailable("the handler cannot be reached")),
        }
    }
}
