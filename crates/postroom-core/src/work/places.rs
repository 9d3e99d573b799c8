//! The places that a process sends messages to: how many messages each has in progress, and whether it is held because
//! it failed. All workers that send to the same places share this.

pub(crate) mod breaker;
mod endpoint;
mod limits;

pub use endpoint::Endpoint;
pub(crate) use endpoint::Endpoints;
pub use limits::Limits;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::queue::{Cause, Fault, Place};
use crate::support::clock::{Clock, Timestamp, monotonic};
use crate::telemetry;
use crate::work::places::breaker::{Breaker, Permission};

/// The places that the workers of this process send to, and their state. Clones share it.
///
/// Pass it to workers with [`Worker::places`](crate::Worker::places) to see the state of their places.
///
/// ```
/// use postroom::{Handlers, Worker};
/// use postroom::store::{Memory, MemoryStore};
/// use postroom::worker::Places;
///
/// let places = Places::default();
/// let worker = Worker::<Memory>::outbox(MemoryStore::new(), Handlers::new()).places(places.clone());
/// for state in places.states() {
///     if let Some(held) = state.held {
///         println!("{} is held since {}: {}", state.place, held.since, held.why);
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct Places(Arc<Mutex<HashMap<Place, Arc<Known>>>>);

/// The state of a place.
///
/// ```
/// use postroom::worker::PlaceState;
///
/// fn described(state: &PlaceState) -> String {
///     match &state.held {
///         None => format!("{}: {} on their way", state.place, state.in_progress),
///         Some(held) => format!("{} is tried again in {:?}: {}", state.place, held.tried_in, held.why),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PlaceState {
    /// The place.
    pub place: Place,
    /// The number of messages in progress there.
    pub in_progress: usize,
    /// The number of its failures in a row.
    pub failures: u32,
    /// Set if it failed too often and its messages wait.
    pub held: Option<HeldPlace>,
}

/// A held place, and the reason.
///
/// ```
/// fn described(held: &postroom::worker::HeldPlace) -> String {
///     format!("since {}: {} ({})", held.since, held.why, held.cause)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeldPlace {
    /// When it began to fail.
    pub since: Timestamp,
    /// After this time, one message tries whether it works again.
    pub tried_in: Duration,
    /// The cause of the last failure.
    pub cause: Cause,
    /// The first line of the last error.
    pub why: String,
}

/// A place that messages were sent to.
pub(crate) struct Known {
    place: Place,
    slots: Arc<Semaphore>,
    permits: usize,
    breaker: Breaker,
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Clone)]
struct Trouble {
    since: Timestamp,
    cause: Cause,
    why: String,
}

impl Places {
    fn known(&self) -> MutexGuard<'_, HashMap<Place, Arc<Known>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of each place that a message was sent to.
    pub fn states(&self) -> Vec<PlaceState> {
        let mut states: Vec<_> = self.known().values().map(|known| known.state()).collect();
        states.sort_by(|one, other| one.place.cmp(&other.place));
        states
    }

    /// Forgets all failures, so that held places are tried at once. Call it when the configuration has changed.
    pub fn reset(&self) {
        self.known().clear();
    }

    /// Returns a place. If it is new, it gets these limits, and at most `share` messages at once.
    pub(crate) fn of(&self, place: &Place, share: usize, limits: impl FnOnce() -> Limits) -> Arc<Known> {
        let mut known = self.known();
        if let Some(known) = known.get(place) {
            return known.clone();
        }
        let limits = limits();
        let permits = limits.concurrency.min(share).clamp(1, Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(permits));
        let (breaker, trouble) = (Breaker::new(limits.breaker), Mutex::default());
        let new = Arc::new(Known { place: place.clone(), slots, permits, breaker, trouble });
        known.insert(place.clone(), new.clone());
        new
    }

    pub(crate) fn get(&self, place: &Place) -> Option<Arc<Known>> {
        self.known().get(place).cloned()
    }

    /// Returns the places whose messages stay in the queue.
    pub(crate) fn held(&self) -> Vec<Place> {
        let known = self.known();
        let held = known.values().filter(|known| known.breaker.holds());
        held.map(|known| known.place.clone()).collect()
    }

    /// Returns the place to try next, and when.
    pub(crate) fn next_probe(&self) -> Option<(Instant, Place)> {
        let known = self.known();
        let due = known.values().filter_map(|known| Some((known.breaker.probe_at()?, known.place.clone())));
        due.min()
    }

    /// Records that no message waits for the place.
    pub(crate) fn rest(&self, place: &Place) {
        if let Some(known) = self.get(place) {
            known.breaker.rest();
        }
    }
}

impl Known {
    /// Returns whether its messages stay in the queue.
    pub(crate) fn holds(&self) -> bool {
        self.breaker.holds()
    }

    /// Returns the semaphore for the messages that it may have at once.
    pub(crate) fn slots(&self) -> &Arc<Semaphore> {
        &self.slots
    }

    /// Returns how many messages it may have at once.
    pub(crate) fn permits(&self) -> usize {
        self.permits
    }

    /// Lets a message enter, or returns `None` while the place is held.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entry> {
        match self.breaker.ask(monotonic()) {
            Permission::Go => Some(Entry { known: self.clone(), is_trying: false }),
            Permission::Try => Some(Entry { known: self.clone(), is_trying: true }),
            Permission::Wait => None,
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> PlaceState {
        let (failures, tried_in) = self.breaker.standing(monotonic());
        let trouble = self.trouble().clone();
        let held = tried_in.zip(trouble).map(|(tried_in, trouble)| HeldPlace {
            since: trouble.since,
            tried_in,
            cause: trouble.cause,
            why: trouble.why,
        });
        let in_progress = self.permits.saturating_sub(self.slots.available_permits());
        PlaceState { place: self.place.clone(), in_progress, failures, held }
    }

    fn failed(&self, store: &str, fault: &Fault) {
        {
            let mut trouble = self.trouble();
            let since = trouble.as_ref().map_or_else(|| Clock::Database.now(), |trouble| trouble.since);
            let why = fault.why().lines().next().unwrap_or_default().to_owned();
            *trouble = Some(Trouble { since, cause: fault.cause(), why });
        }
        if fault.cause() == Cause::NoHandler && matches!(self.place, Place::Topic(_)) {
            self.breaker.despair();
        }
        if self.breaker.failed(monotonic(), fault.pause()) {
            telemetry::place_held(store, &self.place, fault);
        }
    }

    fn answered(&self, store: &str) {
        *self.trouble() = None;
        if self.breaker.answered() {
            telemetry::place_answers(store, &self.place);
        }
    }
}

/// A message at its place, from when it may be sent or handled until that has ended.
pub(crate) struct Entry {
    known: Arc<Known>,
    /// Whether it is the message that tries whether the place works again.
    is_trying: bool,
}

impl Entry {
    /// Records that the place accepted a message of that store, or failed with it.
    pub(crate) fn ended(mut self, store: &str, fault: Option<&Fault>) {
        match fault {
            Some(fault) if fault.holds_the_place() => self.known.failed(store, fault),
            // Our own failures say nothing about the place.
            Some(fault) if fault.whose() == crate::queue::Whose::Ours => return,
            _ => self.known.answered(store),
        }
        self.is_trying = false;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.is_trying {
            self.known.breaker.broken_off();
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("place", &self.known.place).field("is_trying", &self.is_trying).finish()
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known().keys()).finish()
    }
}
