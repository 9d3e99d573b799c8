//! Handlers that are reached by a URL, by topic. They can be replaced while messages are on their way.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use postroom::{Clock, Delivery, HandlerError, HandlerResult, Message, PushUrl};
use tokio::sync::Semaphore;

/// Stands for every topic that has no handler of its own.
const EVERY: &str = "*";
/// So long a message waits in hand for its handler; then it goes back and others get their turn.
const PATIENCE: Duration = Duration::from_millis(500);
/// So long a message waits for a handler that nobody has configured: as long as it has waited, within this.
const UNHANDLED_MIN: Duration = Duration::from_secs(2);
const UNHANDLED_MAX: Duration = Duration::from_secs(300);

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
            let waited = Clock::Database.now().since(message.created_at);
            let why = format!("no handler for the topic {}", message.topic);
            return Some(Err(HandlerError::postpone(waited.clamp(UNHANDLED_MIN, UNHANDLED_MAX), why)));
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
            Delivery::Refused { why } => Err(HandlerError::terminal(why)),
            Delivery::Busy { retry_after, why } => Err(HandlerError::postpone(retry_after, why)),
            Delivery::Failed { why } => Err(HandlerError::retry(why)),
            _ => Err(HandlerError::retry("the handler cannot be reached")),
        }
    }
}
