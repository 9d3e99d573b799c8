//! The receiving end: it verifies incoming messages, recognises duplicates, runs the handler and answers. It does not
//! listen itself; transports bring requests and take replies away.

mod allowed;
mod apply;
mod authenticate;
mod bodies;
mod hooks;
mod options;
mod reply;
mod source;

pub(crate) use authenticate::Authenticated;
use bodies::Bodies;
pub(crate) use bodies::{Room, Whose};
pub(crate) use hooks::HOOKS_PATH;
pub use hooks::Hook;
pub use options::ReceiverOptions;
pub(crate) use reply::Reply;
pub use source::Source;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;

use crate::wire::envelope::Envelope;
use crate::wire::key::Key;
use crate::wire::signature::hex;
use crate::wire::{HmacAlgorithm, Secret, grammar};
use postroom_core::message::{
    ContentHash, IN_REPLY_TO, InboxKey, Incoming, Kind, LANE, NAME_CHARS_MAX, RESERVED, digest_pieces,
};
use postroom_core::store::Store;
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};
use postroom_core::support::task::in_background;
use postroom_core::telemetry;
use postroom_core::work::handler::{Backend, Handlers, InProgress};
use source::{Known, Sources};

/// Receives messages from other services for one store.
///
/// The receiver verifies each message and recognises it by source and id. It handles the message in one transaction
/// with its record and its answer, so a sender that sends it again gets the stored answer. A receiver is cheap to
/// clone.
///
/// ```
/// use postroom::Handlers;
/// use postroom::services::{Key, Receiver, Secret, Source};
/// use postroom::sqlite::{Sqlite, SqliteStore};
///
/// fn receiver(store: SqliteStore, handlers: Handlers<Sqlite>) -> postroom::Result<Receiver<Sqlite>> {
///     let key = Key::new("2026-11", Secret::from_env("ORDERS_SECRET")?)?;
///     Receiver::new("inventory", store, handlers, [Source::new("orders", key)])
/// }
/// ```
pub struct Receiver<B: Backend>(Arc<Inner<B>>);

struct Inner<B: Backend> {
    service: String,
    store: B::Store,
    handlers: Handlers<B>,
    sources: RwLock<Arc<Sources>>,
    hooks: RwLock<HashMap<String, Arc<Hook>>>,
    options: ReceiverOptions,
    in_progress: InProgress,
    in_flight: Arc<Semaphore>,
    bodies: Bodies,
    /// Requests of unknown sources are checked against these keys, so that they take as long as those of known
    /// sources. There is one key for each algorithm.
    decoys: [Key; 2],
}

fn decoys() -> Result<[Key; 2]> {
    let decoy = Key::new("decoy", Secret::parse(&Secret::generate())?)?;
    Ok(HmacAlgorithm::ALL.map(|algorithm| decoy.clone().algorithm(algorithm)))
}

impl<B: Backend> Receiver<B> {
    /// Creates a receiver for `service` that handles messages from these sources as soon as they arrive.
    pub fn new(
        service: impl Into<String>,
        store: B::Store,
        handlers: Handlers<B>,
        sources: impl IntoIterator<Item = Source>,
    ) -> Result<Self> {
        Self::with(service, store, handlers, sources, ReceiverOptions::default())
    }

    /// Creates a receiver with options.
    pub fn with(
        service: impl Into<String>,
        store: B::Store,
        handlers: Handlers<B>,
        sources: impl IntoIterator<Item = Source>,
        mut options: ReceiverOptions,
    ) -> Result<Self> {
        let service = service.into();
        grammar::service("a service's name", &service)?;
        let hooks = hooks_by_name(std::mem::take(&mut options.hooks))?;
        let known = source::known(sources, &Sources::new(), &hooks)?;
        Ok(Self(Arc::new(Inner {
            service,
            store,
            handlers: handlers.checked()?,
            sources: RwLock::new(Arc::new(known)),
            hooks: RwLock::new(hooks),
            in_progress: InProgress::default(),
            in_flight: Arc::new(Semaphore::new(options.in_flight.min(Semaphore::MAX_PERMITS))),
            bodies: Bodies::new(options.unverified_max, options.body_max),
            options: options.checked()?,
            decoys: decoys()?,
        })))
    }

    pub(crate) fn service_name(&self) -> &str {
        &self.0.service
    }

    /// Reserves room for a body that is about to be read.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only requests have bodies"))]
    pub(crate) fn room(&self, whose: Whose) -> Room {
        self.0.bodies.begin(whose)
    }

    pub(crate) fn has_v1_sources(&self) -> bool {
        self.0.sources().values().any(Known::may_use_v1)
    }

    pub(crate) fn options(&self) -> &ReceiverOptions {
        &self.0.options
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.store.clock().now()
    }

    /// Returns the current wall-clock time. The other service signs by its wall clock, so signatures are compared
    /// with ours.
    pub(crate) fn wall(&self) -> Timestamp {
        self.0.store.clock().wall()
    }

    /// Receives an envelope whose source is verified.
    pub(crate) async fn take(&self, from: &Authenticated, envelope: Envelope) -> Reply {
        match incoming(&from.source, envelope) {
            // A v1 signature covers no headers, so somebody else could have set the expiry.
            Ok(mut incoming) if from.head.is_none() => {
                (incoming.expires_at, incoming.lane) = (None, None);
                self.receive(from, incoming).await
            }
            Ok(incoming) => self.receive(from, incoming).await,
            Err(error) => Reply::malformed(&error),
        }
    }

    /// Receives a message whose source is verified. The work is finished even if the caller stops waiting: a sender
    /// that gives up too early gets the answer when it sends the message again.
    pub(crate) async fn receive(&self, from: &Authenticated, mut incoming: Incoming) -> Reply {
        // The sender cannot know what keeps our messages.
        incoming.lane = incoming.lane.filter(|_| self.0.store.keeps_lanes());
        if from.is_too_old(self.window(&from.source), self.now()) {
            return Reply::too_old();
        }
        let sources = self.0.sources();
        let known = sources.get(&from.source).filter(|_| !from.is_webhook);
        // A response has the topic of our own request.
        let may_send = |known: &Known| incoming.kind == Kind::Response || known.may_send(&incoming.topic);
        if known.is_some_and(|known| !may_send(known)) {
            telemetry::topic_refused(self.0.store.name(), &from.source, &incoming.topic);
            return Reply::not_allowed(&incoming.topic);
        }
        let Ok(permit) = self.0.in_flight.clone().try_acquire_owned() else { return Reply::overloaded() };
        let (inner, key) = (self.0.clone(), incoming.key().clone());
        let Some(alone) = inner.in_progress.enter(incoming.key()) else { return Reply::busy() };
        let is_answered = !from.is_webhook && inner.answers(&from.source);
        let is_finished_elsewhere = inner.is_handled_by_writer(&incoming);
        let handling = async move {
            let _held = (permit, alone);
            inner.apply(incoming, is_answered).await
        };
        let reply = match is_finished_elsewhere {
            true => handling.await,
            false => in_background(handling).await.unwrap_or_else(|_| Reply::failed("the receiver is shutting down")),
        };
        let refusal = (!reply.is_success()).then_some((reply.status, reply.body.error.as_deref()));
        telemetry::received(self.0.store.name(), &key, reply.body.duplicate, refusal);
        reply
    }

    /// Waits until nothing is being handled.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only listeners end"))]
    pub(crate) async fn idle(&self) {
        let all = u32::try_from(self.0.options.in_flight).unwrap_or(u32::MAX);
        let _ = self.0.in_flight.acquire_many(all).await;
    }

    /// Returns the longest time for which messages of any source are accepted.
    pub(crate) fn longest_window(&self) -> std::time::Duration {
        let sources = self.0.sources();
        let of_sources = sources.values().filter_map(|source| source.window);
        of_sources.fold(self.0.options.window, std::time::Duration::max)
    }

    /// Distinguishes this receiver from every other receiver of the same service.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns the dedupe window for this source.
    pub(crate) fn window(&self, source: &str) -> std::time::Duration {
        let of_source = self.0.sources().get(source).and_then(|source| source.window);
        of_source.unwrap_or(self.0.options.window)
    }
}

impl<B: Backend> Inner<B> {
    /// Returns the current sources.
    fn sources(&self) -> Arc<Sources> {
        self.sources.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether answers go back to this source in queued mode.
    fn answers(&self, source: &str) -> bool {
        self.options.answers_back && self.sources().get(source).is_none_or(Known::is_answered)
    }
}

fn hooks_by_name(hooks: Vec<Hook>) -> Result<HashMap<String, Arc<Hook>>> {
    let mut known = HashMap::new();
    for hook in hooks {
        let (name, hook) = hook.checked()?;
        if known.insert(name.clone(), Arc::new(hook)).is_some() {
            return Err(Error::invalid(format!("there are two hooks named {name}")));
        }
    }
    Ok(known)
}

/// Turns an envelope into an incoming message. It leaves out the headers of the wire itself.
pub fn incoming(source: &str, envelope: Envelope) -> Result<Incoming> {
    let (kind, payload, expires_at) = (envelope.kind()?, envelope.payload_text()?, envelope.expires_at()?);
    let mut incoming = arrived(source, envelope.message_id, kind, envelope.endpoint, payload)?;
    incoming.expires_at = expires_at;
    incoming.correlation_id = envelope.correlation_id.filter(|id| !id.is_empty());
    incoming.headers = envelope.headers;
    let lane = incoming.headers.remove(LANE).filter(|lane| !lane.is_empty());
    incoming.lane = lane.map(|lane| lane_of(source, &lane));
    incoming.headers.retain(|name, _| !name.starts_with(RESERVED) || kind == Kind::Response && name == IN_REPLY_TO);
    incoming.check()?;
    Ok(incoming)
}

/// Returns the lane of a message that arrived. It belongs to its source: no peer can hold up the lanes of others.
pub(crate) fn lane_of(source: &str, lane: &str) -> String {
    let named = format!("{source}/{lane}");
    let is_short = named.chars().count() <= NAME_CHARS_MAX;
    if is_short { named } else { format!("{source}/{}", hex(&digest_pieces([lane.as_bytes()]))) }
}

/// Builds a message that arrived. Its hash detects the same id with different content; the hash covers more than the
/// payload, so it has its own name.
pub(crate) fn arrived(source: &str, id: String, kind: Kind, topic: String, payload: String) -> Result<Incoming> {
    let key = InboxKey::new(source, id)?;
    let hash = ContentHash::of("sha256-topic-payload", digest_pieces([topic.as_bytes(), payload.as_bytes()]));
    Ok(Incoming::new(key, topic, payload).kind(kind).hash(hash))
}

impl<B: Backend> Clone for Receiver<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> fmt::Debug for Receiver<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("service", &self.0.service).finish_non_exhaustive()
    }
}
