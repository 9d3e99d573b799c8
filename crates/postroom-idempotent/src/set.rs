//! Runs a whole set of handlers, each of them once for each message.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{Idempotent, IdempotentOptions, Once, Unhandled};
use postroom_core::message::Incoming;
use postroom_core::queue::{Cause, Fault};
use postroom_core::support::error::Result;
use postroom_core::work::handler::{Backend, Entry, HandlerError, Handlers};

/// The name of the handler without its own topic.
const FALLBACK: &str = "*";

/// A set of handlers, each of which runs once for each message, however often the message is delivered. It is cheap
/// to clone. Create it with [`new`](Self::new).
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, Handlers, InboxKey, Incoming};
/// use postroom::store::{Memory, MemoryStore};
/// use postroom::idempotent::{IdempotentHandlers, Once};
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.cancelled")]
/// struct OrderCancelled { order: u64 }
///
/// async fn reserve(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
/// async fn release(_: &mut Ctx<Memory>, _: OrderCancelled) -> Result<(), HandlerError> { Ok(()) }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let handlers = Handlers::new().on(reserve).on(release);
/// let handlers = IdempotentHandlers::new(MemoryStore::new(), "stock", handlers)?;
/// // The broker delivers this message twice:
/// let delivered = Incoming::new(InboxKey::new("orders-topic", "0/4711")?, "order.placed", r#"{"order":7}"#);
/// assert_eq!(handlers.run(delivered.clone()).await?, Once::Ran(None));
/// assert_eq!(handlers.run(delivered).await?, Once::Duplicate);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct IdempotentHandlers<B: Backend> {
    wrapped: Arc<HashMap<String, Wrapped<B>>>,
    fallback: Option<Arc<Wrapped<B>>>,
}

/// A handler, and the runner that marks its messages.
struct Wrapped<B: Backend> {
    handler: Entry<B>,
    once: Idempotent<B>,
}

impl<B: Backend> IdempotentHandlers<B> {
    /// Wraps all handlers, so that each of them runs once for each message that does not come through the inbox. A
    /// handler is identified by the name of the set and its topic, such as `stock/order.placed`. Two sets are
    /// therefore two handlers of the same message.
    pub fn new(store: B::Store, name: impl AsRef<str>, handlers: Handlers<B>) -> Result<Self> {
        Self::with(store, name, handlers, IdempotentOptions::default())
    }

    /// Wraps all handlers, with options.
    pub fn with(
        store: B::Store,
        name: impl AsRef<str>,
        handlers: Handlers<B>,
        options: IdempotentOptions,
    ) -> Result<Self> {
        let (handlers, name) = (handlers.checked()?, name.as_ref());
        postroom_core::message::check_name("the name of a set of handlers", name)?;
        let wrap = |topic: &str, handler: &Entry<B>| -> Result<_> {
            let mut once = Idempotent::with(store.clone(), format!("{name}/{topic}"), options.clone())?;
            once.state = handlers.state.clone();
            Ok(Wrapped { handler: handler.clone(), once })
        };
        let entries = handlers.entries().map(|(topic, entry)| Ok((topic.to_owned(), wrap(topic, entry)?)));
        let wrapped = Arc::new(entries.collect::<Result<_>>()?);
        let fallback = handlers.fallback_entry().map(|entry| wrap(FALLBACK, &entry)).transpose()?;
        Ok(Self { wrapped, fallback: fallback.map(Arc::new) })
    }

    /// Runs the handler of the message's topic, unless the handler has already processed the message. The answer is
    /// JSON, as a worker would store it.
    ///
    /// A topic without a handler is a temporary failure, because the next release may handle it.
    pub async fn run(&self, incoming: Incoming) -> Result<Once<Option<String>>, Unhandled> {
        let Some(wrapped) = self.find(&incoming.topic) else {
            let why = format!("no handler for the topic {}", incoming.topic);
            return Err(Unhandled::Handler(HandlerError::from(Fault::new(Cause::NoHandler, why))));
        };
        wrapped.once.run_by(incoming, &wrapped.handler).await
    }

    /// Returns the runner of a topic's handler, to look for a mark or to delete old ones at once.
    pub fn of(&self, topic: &str) -> Option<&Idempotent<B>> {
        self.find(topic).map(|wrapped| &wrapped.once)
    }

    fn find(&self, topic: &str) -> Option<&Wrapped<B>> {
        self.wrapped.get(topic).or(self.fallback.as_deref())
    }
}

impl<B: Backend> Clone for IdempotentHandlers<B> {
    fn clone(&self) -> Self {
        Self { wrapped: self.wrapped.clone(), fallback: self.fallback.clone() }
    }
}

impl<B: Backend> fmt::Debug for IdempotentHandlers<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentHandlers").field("topics", &self.wrapped.keys()).finish_non_exhaustive()
    }
}
