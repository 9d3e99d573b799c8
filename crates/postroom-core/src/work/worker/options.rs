//! The options of a worker.

use std::sync::Arc;
use std::time::Duration;

use crate::message::OwnerToken;
use crate::queue::retry::{RetryPolicies, RetryPolicy};
use crate::queue::{ClaimRequest, Topics};
use crate::support::error::{Error, Result};
use crate::work::places::{Endpoint, Endpoints, Limits};
#[cfg(feature = "testing")]
use crate::work::worker::Probe;
use crate::work::worker::Retention;

/// The options of a worker. The defaults are fast; change them only after measuring.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Handlers, RetryPolicy, Worker, WorkerOptions};
/// use postroom::store::{Memory, MemoryStore};
///
/// let retry = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(60), Duration::ZERO, 20)?;
/// let options = WorkerOptions::default().concurrency(4).lease(Duration::from_secs(120)).retry(retry);
/// let worker = Worker::<Memory>::outbox(MemoryStore::new(), Handlers::new()).options(options);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub(crate) batch: usize,
    /// The limit for a claim of a place that is known to be fast, if the batch was not set.
    pub(crate) large_batch: Option<usize>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) poll_max: Duration,
    pub(crate) concurrency: usize,
    pub(crate) per_place: Option<usize>,
    pub(crate) suspects_at_once: usize,
    /// The limit for payloads in progress, in bytes.
    pub(crate) memory: u64,
    pub(crate) handler_limits: Limits,
    pub(crate) endpoints: Endpoints,
    pub(crate) policies: Arc<RetryPolicies>,
    pub(crate) grace: Duration,
    pub(crate) maintenance: Duration,
    #[doc(hidden)]
    pub retention: Retention,
    /// With `None`, every ready message.
    pub(crate) topics: Option<Topics>,
    #[cfg(feature = "testing")]
    pub(crate) probe: Option<Probe>,
}

const LARGE_BATCH: usize = 500;
/// How many batches may be in progress, up to `IN_PROGRESS_MAX` messages.
const BATCHES_IN_PROGRESS: usize = 4;
/// At most this many messages are in progress, however many places there are.
pub(super) const IN_PROGRESS_MAX: usize = 1500;
/// One place takes at most this fraction.
const PARTS: usize = 4;
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            batch: 50,
            large_batch: Some(LARGE_BATCH),
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(500),
            poll_max: Duration::from_secs(5),
            concurrency: 16,
            per_place: None,
            suspects_at_once: 1,
            memory: 32 << 20,
            handler_limits: Limits::default(),
            endpoints: Endpoints::default(),
            policies: Arc::default(),
            grace: Duration::from_secs(30),
            maintenance: Duration::from_secs(300),
            retention: Retention::default(),
            topics: None,
            #[cfg(feature = "testing")]
            probe: None,
        }
    }
}

impl WorkerOptions {
    crate::setters! {
        /// Sets how many messages a claim takes at most. By default it is 50, and up to 500 of a topic or destination
        /// that completes so many within a second.
        pub fn batch(mut self, rows: usize) { (self.batch, self.large_batch) = (rows, None); }

        /// Sets how long a message is leased before others may claim it, unless the lease is renewed; 30 s by default.
        pub fn lease(mut self, lease: Duration) { self.lease = lease; }

        /// Sets how often to look for messages without a wake-up, at first; every 0.5 s by default.
        pub fn poll(mut self, interval: Duration) {
            self.poll = interval;
            self.poll_max = self.poll_max.max(interval);
        }

        /// Sets how often to look when nothing has come for a while; every 5 s by default.
        pub fn poll_max(mut self, interval: Duration) { self.poll_max = interval; }

        /// Sets how many async handlers run at once; 16 by default.
        pub fn concurrency(mut self, handlers: usize) { self.concurrency = handlers; }

        /// Sets how many of them one topic may take. For destinations, the limit is the same share of four times as
        /// many messages. By default it is a quarter, or an equal part if there are fewer than four topics. So a slow
        /// topic or destination does not delay others.
        pub fn per_place(mut self, messages: usize) { self.per_place = Some(messages); }

        /// Sets how many suspects run at once, beside the other messages; one by default.
        pub fn suspects(mut self, messages: usize) { self.suspects_at_once = messages; }

        /// Sets how many bytes of payload may be in progress at once; 32 MiB by default. With the memory that the
        /// database driver needs, the process grows by up to twice as much. A larger message is claimed alone.
        pub fn memory(mut self, bytes: u64) { self.memory = bytes; }

        /// Sets when the handlers of a topic are held, and how many messages of a topic run at once. Only failures of
        /// the place count ([`HandlerError::unavailable`](crate::HandlerError::unavailable)).
        pub fn handler_limits(mut self, limits: Limits) { self.handler_limits = limits; }

        /// Sets where the handlers of a topic run, if several topics share one place: a slow [`Endpoint`] delays no
        /// others, however many topics are handled there. The function is called for each message.
        pub fn endpoints(mut self, find: impl Fn(&str) -> Option<Endpoint> + Send + Sync + 'static) {
            self.endpoints = Endpoints::new(find);
        }

        /// Sets the retry policy for handlers, unless there is one for their topic.
        pub fn retry(mut self, policy: RetryPolicy) { Arc::make_mut(&mut self.policies).handled_here = policy; }

        /// Sets the retry policy for messages to other services, unless there is one for their destination or topic.
        pub fn retry_services(mut self, policy: RetryPolicy) { Arc::make_mut(&mut self.policies).sent = policy; }

        /// Sets the retry policies by destination, handler and topic.
        pub fn policies(mut self, policies: RetryPolicies) { self.policies = Arc::new(policies); }

        /// Sets how long a worker that stops may take to finish what is in progress; 30 s by default.
        pub fn grace(mut self, grace: Duration) { self.grace = grace; }

        /// Sets how often maintenance runs: reaping, expiring and deleting; every 5 minutes by default.
        pub fn maintenance(mut self, interval: Duration) { self.maintenance = interval; }

        /// Sets how long finished messages are kept.
        pub fn retention(mut self, retention: Retention) { self.retention = retention; }

        /// Does not claim these messages, because something else does.
        pub fn leave(mut self, topics: &Topics) { self.topics = Some(topics.rest()); }

        /// Sets a function that is called at named points of the worker's turn.
        #[cfg(feature = "testing")]
        pub fn probe(mut self, probe: Probe) { self.probe = Some(probe); }
    }

    /// Returns how many messages may be in progress, apart from those beyond a place's share.
    pub(crate) fn in_progress_max(&self) -> usize {
        (self.batch * BATCHES_IN_PROGRESS).max(self.batch + self.concurrency).min(self.batch + IN_PROGRESS_MAX)
    }

    /// Returns how many of `slots` one place may take, if there are that many places.
    pub(crate) fn share(&self, slots: usize, places: Option<usize>) -> usize {
        let parts = places.unwrap_or(PARTS).clamp(1, PARTS);
        self.per_place.unwrap_or(slots.div_ceil(parts)).clamp(1, slots.max(1))
    }

    #[doc(hidden)]
    pub fn checked(self) -> Result<Self> {
        ClaimRequest::new(OwnerToken::new(), self.lease, self.batch)?;
        (*self.policies).clone().checked()?;
        if self.per_place == Some(0) || self.suspects_at_once == 0 || self.memory == 0 {
            return Err(Error::invalid("per_place, suspects and memory of a worker must be at least 1"));
        }
        if self.concurrency == 0 {
            return Err(Error::invalid("the concurrency of a worker must be at least 1"));
        }
        if self.poll.is_zero() || self.poll_max < self.poll {
            return Err(Error::invalid(
                "a worker's poll interval must be longer than zero and no longer than its maximum",
            ));
        }
        if self.maintenance.is_zero() || self.maintenance > YEAR || self.grace > YEAR || self.poll_max > YEAR {
            return Err(Error::invalid(
                "a worker's maintenance interval must be longer than zero, and it, the grace time and the poll \
                 interval at most a year",
            ));
        }
        self.retention.check()?;
        Ok(self)
    }
}
