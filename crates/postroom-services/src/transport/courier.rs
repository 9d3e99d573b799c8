//! Takes messages to the services it knows, each over its own transport and with its own limits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::transport::in_process::Neighbours;
use crate::transport::judge::{Answered, judge};
use crate::transport::parcel::Parcel;
use crate::transport::services::{Checked, Service, Services};
use crate::transport::wires::{self, Wire, WireError};
use postroom_core::message::Message;
use postroom_core::queue::{Cause, Fault};
use postroom_core::store::BoxFuture;
use postroom_core::support::clock::Clock;
use postroom_core::support::error::Result;
use postroom_core::telemetry;
use postroom_core::work::delivery::{Delivery, Transport};
use postroom_core::work::places::Limits;

/// Takes messages to other services. A courier is cheap to clone.
///
/// ```no_run
/// # async fn f(store: postroom::sqlite::SqliteStore, services: postroom::services::Services) -> postroom::Result<()> {
/// use postroom::{Handlers, Worker};
/// use postroom::services::Courier;
///
/// let courier = Courier::new(services)?;
/// let shutdown = async { tokio::signal::ctrl_c().await.ok(); };
/// Worker::<postroom::sqlite::Sqlite>::outbox(store, Handlers::new()).transport(courier).run(shutdown).await
/// # }
/// ```
#[derive(Clone)]
pub struct Courier(Arc<Inner>);

struct Inner {
    map: RwLock<Arc<Map>>,
    neighbours: Neighbours,
}

/// The services at one moment. A message in transit keeps the map it left with.
struct Map {
    source: String,
    routes: BTreeMap<String, Arc<Route>>,
    others: Option<Service>,
    clock: Clock,
    found: Mutex<BTreeMap<String, Arc<Route>>>,
}

/// The route to one destination.
pub(crate) struct Route {
    service: Service,
    wire: Arc<dyn Wire>,
    on_the_way: Arc<AtomicUsize>,
    /// The destination's dedupe window, as it last reported it.
    window: Mutex<Option<Duration>>,
    /// Whether a message lives longer than that window.
    forgets_early: AtomicBool,
}

impl Courier {
    /// Creates a courier to these services. It fails if a service has no key, or if its connection would be
    /// unencrypted.
    pub fn new(services: Services) -> Result<Self> {
        Self::with_neighbours(services, Neighbours::default())
    }

    /// Creates a courier that also reaches receivers in this process.
    pub fn with_neighbours(services: Services, neighbours: Neighbours) -> Result<Self> {
        let map = Map::new(services, &neighbours, None)?;
        Ok(Self(Arc::new(Inner { map: RwLock::new(Arc::new(map)), neighbours })))
    }

    /// Replaces the services. Destinations that did not change keep their connections and limits.
    pub fn replace(&self, services: Services) -> Result<()> {
        let map = Map::new(services, &self.0.neighbours, Some(&self.map()))?;
        *self.0.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        Ok(())
    }

    fn map(&self) -> Arc<Map> {
        self.0.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the state of each destination.
    pub fn destinations(&self) -> Vec<Destination> {
        let map = self.map();
        let found = map.found.lock().unwrap_or_else(PoisonError::into_inner);
        map.routes.values().chain(found.values()).map(|route| route.state()).collect()
    }

    async fn deliver(&self, message: &Message) -> Delivery {
        let map = self.map();
        let destination = message.destination();
        let route = destination.and_then(|destination| map.route(destination, &self.0.neighbours));
        let (Some(destination), Some(route)) = (destination, route) else { return Delivery::no_route(destination) };
        let now = map.clock.wall();
        let keys = route.service.keys.active(now);
        if route.wire.is_signed() && route.service.peer.needs_key() && keys.is_empty() {
            return Fault::new(Cause::NoKey, format!("no key for {destination} is valid at the moment")).into();
        }
        let parcel = Parcel { message, source: &map.source, destination, keys, now };
        route.send(&parcel).await
    }
}

impl Map {
    fn new(services: Services, neighbours: &Neighbours, before: Option<&Self>) -> Result<Self> {
        let Checked { source, services, others, clock } = services.checked()?;
        let mut routes = BTreeMap::new();
        for (name, service) in services {
            let kept = before.and_then(|before| before.routes.get(&name)).filter(|route| route.is_for(&service));
            let route = match kept {
                Some(route) => Arc::new(route.with_keys_of(service)),
                None => Arc::new(Route::new(service, neighbours)?),
            };
            routes.insert(name, route);
        }
        Ok(Self { source, routes, others, clock, found: Mutex::default() })
    }

    fn route(&self, destination: &str, neighbours: &Neighbours) -> Option<Arc<Route>> {
        if let Some(route) = self.routes.get(destination) {
            return Some(route.clone());
        }
        let others = self.others.as_ref()?;
        crate::wire::grammar::service("a destination", destination).ok()?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = found.get(destination) {
            return Some(route.clone());
        }
        let service = others.clone().named(destination);
        let route = Arc::new(Route::new(service, neighbours).ok()?);
        found.insert(destination.to_owned(), route.clone());
        Some(route)
    }
}

impl Route {
    fn new(service: Service, neighbours: &Neighbours) -> Result<Self> {
        Ok(Self {
            wire: wires::open(&service, neighbours)?,
            on_the_way: Arc::default(),
            window: Mutex::default(),
            forgets_early: AtomicBool::new(false),
            service,
        })
    }

    /// Returns whether the service is unchanged, as far as that is visible: keys and secrets are not.
    fn is_for(&self, service: &Service) -> bool {
        let has_no_signer = self.service.signer.is_none() && service.signer.is_none();
        has_no_signer && format!("{:?}", self.service) == format!("{service:?}")
    }

    /// Returns the same route with the keys of this service, whatever they were before.
    fn with_keys_of(&self, service: Service) -> Self {
        let window = Mutex::new(*self.window.lock().unwrap_or_else(PoisonError::into_inner));
        let (wire, on_the_way) = (self.wire.clone(), self.on_the_way.clone());
        let forgets_early = AtomicBool::new(self.forgets_early.load(Ordering::Relaxed));
        Self { service, wire, on_the_way, window, forgets_early }
    }

    fn state(&self) -> Destination {
        Destination {
            name: self.service.name.clone(),
            on_the_way: self.on_the_way.load(Ordering::Relaxed),
            window: *self.window.lock().unwrap_or_else(PoisonError::into_inner),
            forgets_early: self.forgets_early.load(Ordering::Relaxed),
        }
    }

    async fn send(&self, parcel: &Parcel<'_>) -> Delivery {
        let _counted = Counted::new(&self.on_the_way);
        match tokio::time::timeout(self.service.timeout, self.wire.exchange(parcel)).await {
            Ok(Ok(answered)) => {
                self.heard(&answered, parcel);
                judge(self.service.peer, &answered)
            }
            // The message itself is at fault.
            Ok(Err(WireError::Unsendable(why))) => Delivery::refused(why),
            Ok(Err(WireError::NoOne)) => Delivery::no_route(Some(parcel.destination)),
            Ok(Err(WireError::Broken(why))) => Delivery::unreachable(why),
            Err(_) => Fault::new(Cause::TimedOut, format!("no answer within {:?}", self.service.timeout)).into(),
        }
    }

    fn heard(&self, answered: &Answered, parcel: &Parcel<'_>) {
        let Some(window) = answered.window.filter(|_| answered.has_receipt) else { return };
        let known = self.window.lock().unwrap_or_else(PoisonError::into_inner).replace(window);
        // The receiver counts from the message's due time.
        let begin = parcel.message.due_at.unwrap_or(parcel.message.created_at).max(parcel.message.created_at);
        let horizon = parcel.message.expires_at.map(|end| end.since(begin));
        let is_short = horizon.is_none_or(|horizon| horizon > window);
        if known != Some(window) || is_short {
            self.forgets_early.store(is_short, Ordering::Relaxed);
        }
        if known != Some(window) && is_short {
            telemetry::window_too_short(parcel.destination, window, horizon);
        }
    }
}

/// Counts a message in transit, however its delivery ends.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn new(counter: &'c AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transport for Courier {
    fn limits(&self, destination: &str) -> Limits {
        let route = self.map().route(destination, &self.0.neighbours);
        route.map_or_else(Limits::default, |route| route.service.limits)
    }

    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(self.deliver(message))
    }
}

/// The state of a destination.
///
/// ```
/// # use postroom::services::{Courier, Key, Secret, Service, Services};
/// # let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?;
/// # let inventory = Service::new("inventory", "in-process").keys(key);
/// let courier = Courier::new(Services::new("orders").service(inventory))?;
/// let destinations = courier.destinations();
/// assert_eq!((destinations[0].name.as_str(), destinations[0].on_the_way), ("inventory", 0));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Destination {
    /// The name of the service.
    pub name: String,
    /// How many messages are in transit to it.
    pub on_the_way: usize,
    /// Its dedupe window, as it last reported it. A message that lives longer could be applied twice.
    pub window: Option<Duration>,
    /// Whether a message that was sent lives longer than that window.
    pub forgets_early: bool,
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.map();
        f.debug_struct("Courier").field("source", &map.source).field("services", &map.routes.keys()).finish()
    }
}
