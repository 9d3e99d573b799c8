//! Handlers of any type in one table, by topic: generic at the edge, `dyn` inside.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;

use crate::message::{Message, Payload, json};
use crate::store::BoxFuture;
use crate::support::error::{Error, Result};
use crate::work::handler::tuning::Tuning;
use crate::work::handler::{Backend, Ctx, HandlerError, HandlerFn, HandlerResult, Needed, States};

/// The name of the handler for every other topic.
const FALLBACK: &str = "*";

/// A handler that is a type with its own fields.
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, Handlers};
/// use postroom::handler::Handle;
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// struct Mailer { from: String }
///
/// impl Handle<Memory, OrderPlaced> for Mailer {
///     async fn handle(&self, _: &mut Ctx<Memory>, placed: OrderPlaced) -> Result<(), HandlerError> {
///         println!("order {} was placed, writes {}", placed.order, self.from);
///         Ok(())
///     }
/// }
///
/// let handlers = Handlers::<Memory>::new().with(Mailer { from: "shop".into() });
/// ```
pub trait Handle<B: Backend, P: Payload>: Send + Sync + 'static {
    /// Handles one message.
    fn handle(&self, ctx: &mut Ctx<B>, payload: P) -> impl Future<Output = HandlerResult<P::Reply>> + Send;

    /// Returns the states that it takes.
    #[doc(hidden)]
    fn needed(&self) -> Vec<Needed> {
        Vec::new()
    }
}

pub trait Erased<B: Backend>: Send + Sync {
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<Option<String>>>;
}

struct FnHandler<F, P, A>(F, PhantomData<fn(P) -> A>);

impl<B, P, A, F> Erased<B> for FnHandler<F, P, A>
where
    B: Backend,
    P: Payload,
    F: for<'c> HandlerFn<'c, B, P, P::Reply, A>,
{
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<Option<String>>> {
        Box::pin(async move {
            let payload = decode::<P>(&ctx.message)?;
            encode(&self.0.call(ctx, payload).await?)
        })
    }
}

struct RawHandler<F, A>(F, PhantomData<fn(A)>);

impl<B, A, F> Erased<B> for RawHandler<F, A>
where
    B: Backend,
    F: for<'c> HandlerFn<'c, B, Arc<Message>, Option<String>, A>,
{
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<Option<String>>> {
        let message = ctx.message.clone();
        Box::pin(self.0.call(ctx, message))
    }
}

struct ObjectHandler<H, P>(H, PhantomData<fn(P)>);

impl<B: Backend, P: Payload, H: Handle<B, P>> Erased<B> for ObjectHandler<H, P> {
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<Option<String>>> {
        Box::pin(async move {
            let payload = decode::<P>(&ctx.message)?;
            encode(&self.0.handle(ctx, payload).await?)
        })
    }
}

/// Decodes a payload. If it does not match its type, it is tried again, because the next release may read it. A payload
/// of a newer release waits for that release.
pub fn decode<P: Payload>(message: &Message) -> HandlerResult<P> {
    message.read::<P>().map_err(|error| match message.is_newer_than::<P>() {
        true => HandlerError::newer(error),
        false => HandlerError::retry(error),
    })
}

/// Encodes the answer as JSON; `()` means no answer.
pub fn encode<R: Serialize>(reply: &R) -> HandlerResult<Option<String>> {
    let json = json::write("the answer", reply).map_err(HandlerError::terminal)?;
    Ok(Some(json).filter(|json| json != "null"))
}

/// A handler, by how it runs.
#[allow(missing_debug_implementations, reason = "handlers are functions")]
pub enum Entry<B: Backend> {
    Async(Arc<dyn Erased<B>>),
    Blocking(B::Blocking),
}

impl<B: Backend> Clone for Entry<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Async(handler) => Self::Async(handler.clone()),
            Self::Blocking(handler) => Self::Blocking(handler.clone()),
        }
    }
}

/// The handlers of a worker, by topic.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Payload};
/// use postroom::sqlite::Sqlite;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: u64 }
/// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
///
/// async fn reserve(ctx: &mut Ctx<Sqlite>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let order = placed.order.to_string();
///     ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO reserved VALUES (?1)", [order])).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::new().on(reserve);
/// ```
pub struct Handlers<B: Backend> {
    entries: HashMap<String, Entry<B>>,
    fallback: Option<Arc<dyn Erased<B>>>,
    #[doc(hidden)]
    pub state: States,
    /// The states that handlers take, by topic.
    needed: BTreeMap<String, Vec<Needed>>,
    pub(crate) tuning: Tuning,
    problem: Option<Error>,
}

impl<B: Backend> Default for Handlers<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Backend> Handlers<B> {
    /// Creates an empty set of handlers.
    pub fn new() -> Self {
        let (entries, needed) = (HashMap::new(), BTreeMap::new());
        Self { entries, fallback: None, state: States::default(), needed, tuning: Tuning::default(), problem: None }
    }

    /// Adds an async function for the topic of its payload. It returns the answer that the payload's type declares.
    #[must_use]
    pub fn on<P: Payload, A: 'static>(self, handler: impl for<'c> HandlerFn<'c, B, P, P::Reply, A> + 'static) -> Self {
        let needed = HandlerFn::<'_, B, P, P::Reply, A>::needed(&handler);
        self.add(P::TOPIC, Entry::Async(Arc::new(FnHandler(handler, PhantomData))), needed)
    }

    /// Adds an object for the topic of its payload.
    #[must_use]
    pub fn with<P: Payload>(self, handler: impl Handle<B, P>) -> Self {
        let needed = handler.needed();
        self.add(P::TOPIC, Entry::Async(Arc::new(ObjectHandler(handler, PhantomData))), needed)
    }

    /// Adds an async function that takes whole messages of a topic and answers with text.
    #[must_use]
    pub fn on_topic<A: 'static>(
        self,
        topic: impl Into<String>,
        handler: impl for<'c> HandlerFn<'c, B, Arc<Message>, Option<String>, A> + 'static,
    ) -> Self {
        let needed = HandlerFn::<'_, B, Arc<Message>, Option<String>, A>::needed(&handler);
        self.add(topic, Entry::Async(Arc::new(RawHandler(handler, PhantomData))), needed)
    }

    /// Adds an async function for every topic that has no handler.
    #[must_use]
    pub fn fallback<A: 'static>(
        mut self,
        handler: impl for<'c> HandlerFn<'c, B, Arc<Message>, Option<String>, A> + 'static,
    ) -> Self {
        self.needed.insert(FALLBACK.to_owned(), HandlerFn::<'_, B, Arc<Message>, Option<String>, A>::needed(&handler));
        self.tuning.about(Vec::new());
        self.fallback = Some(Arc::new(RawHandler(handler, PhantomData)));
        self
    }

    /// Adds a value that every handler can take as a [`State`](crate::work::handler::State), or get from its context.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if let Err(error) = self.state.insert(value) {
            self.refuse(error);
        }
        self
    }

    /// Remembers the first problem, which is reported when the handlers are used.
    pub(crate) fn refuse(&mut self, problem: Error) {
        self.problem.get_or_insert(problem);
    }

    pub(crate) fn add(mut self, topic: impl Into<String>, entry: Entry<B>, needed: Vec<Needed>) -> Self {
        let topic = topic.into();
        if self.entries.contains_key(&topic) {
            self.refuse(Error::invalid(format!("the topic {topic:?} has two handlers")));
        }
        self.tuning.about(vec![topic.clone()]);
        self.needed.insert(topic.clone(), needed);
        self.entries.insert(topic, entry);
        self
    }

    /// Returns the number of topics, or `None` if every topic is handled.
    pub(crate) fn topics(&self) -> Option<usize> {
        self.fallback.is_none().then_some(self.entries.len())
    }

    #[doc(hidden)]
    pub fn find(&self, topic: &str) -> Option<Entry<B>> {
        self.entries.get(topic).cloned().or_else(|| self.fallback_entry())
    }

    /// Returns the topics that have their own handler.
    #[doc(hidden)]
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry<B>)> {
        self.entries.iter().map(|(topic, entry)| (topic.as_str(), entry))
    }

    /// Returns the handler of every other topic.
    #[doc(hidden)]
    pub fn fallback_entry(&self) -> Option<Entry<B>> {
        self.fallback.clone().map(Entry::Async)
    }

    /// Returns the same handlers with the same state, for another worker of this service.
    #[doc(hidden)]
    pub fn shared(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            fallback: self.fallback.clone(),
            state: self.state.clone(),
            needed: self.needed.clone(),
            tuning: self.tuning.clone(),
            problem: None,
        }
    }

    /// Returns the handlers if each topic has only one, and each handler has the states that it takes.
    #[doc(hidden)]
    pub fn checked(mut self) -> Result<Self> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        self.needed.iter().try_for_each(|(topic, needed)| self.state.check(topic, needed))?;
        Ok(self)
    }
}

impl<B: Backend> fmt::Debug for Handlers<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("topics", &self.entries.keys()).finish_non_exhaustive()
    }
}
