//! How a worker works.

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

/// How a worker works. The defaults are fast; change them when you have measured.
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
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) poll_max: Duration,
    pub(crate) concurrency: usize,
    pub(crate) per_place: Option<usize>,
    pub(crate) suspects_at_once: usize,
    /// Bytes of payload.
    pub(crate) memory: u64,
    pub(crate) handler_limits: Limits,
    pub(crate) endpoints: Endpoints,
    pub(crate) policies: Arc<RetryPolicies>,
    pub(crate) grace: Duration,
    pub(crate) maintenance: Duration,
    #[doc(hidden)]
    pub retention: Retention,
    /// None: whatever is in line.
    pub(crate) topics: Option<Topics>,
    #[cfg(feature = "testing")]
    pub(crate) probe: Option<Probe>,
}

/// So many batches may be in hand, as long as that is not too much.
const BATCHES_IN_HAND: usize = 4;
const IN_HAND_MAX: usize = 1000;
/// One place takes at most one of so many parts.
const PARTS: usize = 4;
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            batch: 50,
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
    /// At most so many messages with one claim: 50.
    #[must_use]
    pub fn batch(mut self, rows: usize) -> Self {
        self.batch = rows;
        self
    }

    /// How long a message is held before others may take it, unless it is renewed: 30 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often to look without being woken, at first: 0.5 s.
    #[must_use]
    pub fn poll(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self.poll_max = self.poll_max.max(interval);
        self
    }

    /// How often to look when nothing has come for a while: 5 s.
    #[must_use]
    pub fn poll_max(mut self, interval: Duration) -> Self {
        self.poll_max = interval;
        self
    }

    /// How many async handlers run at once: 16.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers;
        self
    }

    /// How many of them one topic may take, and of four times as many messages to other services one destination: a
    /// quarter by default, or an equal part where there are fewer than four topics. So nothing waits
    /// for another topic's or destination's slow messages.
    #[must_use]
    pub fn per_place(mut self, messages: usize) -> Self {
        self.per_place = Some(messages);
        self
    }

    /// How many messages run at once that a worker crashed with, beside the others: one.
    #[must_use]
    pub fn suspects(mut self, messages: usize) -> Self {
        self.suspects_at_once = messages;
        self
    }

    /// How many bytes of payload it holds at once: 32 MiB. With what the database needs to read them, the process grows
    /// by up to twice as much. A message that is larger than that comes alone.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// When the handlers of a topic are left alone, and how many messages of a topic run at once. Only failures of the
    /// place count ([`HandlerError::unavailable`](crate::HandlerError::unavailable)).
    #[must_use]
    pub fn handler_limits(mut self, limits: Limits) -> Self {
        self.handler_limits = limits;
        self
    }

    /// Where the handlers of a topic are reached, if that is one place for several topics: an [`Endpoint`] that is slow
    /// holds up no others, however many topics are handled there. It is asked for each message.
    #[must_use]
    pub fn endpoints(mut self, find: impl Fn(&str) -> Option<Endpoint> + Send + Sync + 'static) -> Self {
        self.endpoints = Endpoints::new(find);
        self
    }

    /// When handlers are tried again, unless there is a policy for their topic.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        Arc::make_mut(&mut self.policies).handled_here = policy;
        self
    }

    /// When messages to other services are sent again, unless there is a policy for their destination or topic.
    #[must_use]
    pub fn retry_services(mut self, policy: RetryPolicy) -> Self {
        Arc::make_mut(&mut self.policies).sent = policy;
        self
    }

    /// When messages are tried again, by destination, handler and topic.
    #[must_use]
    pub fn policies(mut self, policies: RetryPolicies) -> Self {
        self.policies = Arc::new(policies);
        self
    }

    /// How long a worker that is told to stop may finish what it holds: 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How often messages past their retention are deleted, and leases and expiry looked after: 5 minutes.
    #[must_use]
    pub fn maintenance(mut self, interval: Duration) -> Self {
        self.maintenance = interval;
        self
    }

    /// How long messages are kept that nobody works on any more.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Leaves these messages to somebody else, who claims them.
    #[must_use]
    pub fn leave(mut self, topics: &Topics) -> Self {
        self.topics = Some(topics.rest());
        self
    }

    /// Called at named points of the worker's turn.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// So many messages are in hand at most, those beyond a place's share aside.
    pub(crate) fn in_hand(&self) -> usize {
        (self.batch * BATCHES_IN_HAND).max(self.batch + self.concurrency).min(self.batch + IN_HAND_MAX)
    }

    /// How many of `slots` one place may take, if there are that many places.
    pub(crate) fn share(&self, slots: usize, places: Option<usize>) -> usize {
        let parts = places.unwrap_or(PARTS).clamp(1, PARTS);
        self.per_place.unwrap_or(slots.div_ceil(parts)).clamp(1, slots.max(1))
    }

    #[doc(hidden)]
    pub fn checked(self) -> Result<Self> {
        ClaimRequest::new(OwnerToken::new(), self.lease, self.batch)?;
        (*self.policies).clone().checked()?;
        if self.per_place == Some(0) || self.suspects_at_once == 0 || self.memory == 0 {
            return Err(Error::invalid(
                "a worker must take at least one message per place, one that a worker crashed with, and one byte",
            ));
        }
        if self.concurrency == 0 {
            return Err(Error::invalid("a worker must run at least one handler at a time"));
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
