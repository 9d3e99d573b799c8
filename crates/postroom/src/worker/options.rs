//! How a worker works.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::message::OwnerToken;
use crate::queue::{ClaimRequest, Topics};
use crate::retry::RetryPolicy;
#[cfg(feature = "testing")]
use crate::worker::Probe;
use crate::worker::Retention;

/// How a worker works. The defaults are fast; change them when you have measured.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Handlers, Memory, MemoryStore, RetryPolicy, Worker, WorkerOptions};
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
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_services: RetryPolicy,
    pub(crate) grace: Duration,
    pub(crate) maintenance: Duration,
    pub(crate) retention: Retention,
    /// None: whatever is in line.
    pub(crate) topics: Option<Topics>,
    #[cfg(feature = "testing")]
    pub(crate) probe: Option<Probe>,
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            batch: 50,
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(500),
            poll_max: Duration::from_secs(5),
            concurrency: 16,
            retry: RetryPolicy::handlers(),
            retry_services: RetryPolicy::services(),
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

    /// When handlers are tried again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// When messages to other services are sent again.
    #[must_use]
    pub fn retry_services(mut self, policy: RetryPolicy) -> Self {
        self.retry_services = policy;
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

    pub(crate) fn request(&self, owner: OwnerToken, batch: usize) -> Result<ClaimRequest> {
        let request = ClaimRequest::new(owner, self.lease, batch)?;
        Ok(self.topics.iter().cloned().fold(request, ClaimRequest::topics))
    }

    pub(crate) fn checked(self) -> Result<Self> {
        self.request(OwnerToken::new(), self.batch)?;
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
