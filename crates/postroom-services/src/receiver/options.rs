//! How a receiver receives.

use std::time::Duration;

use super::Hook;
use postroom_core::support::error::{Error, Result};

/// Signatures may be so much older or newer than our clock.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(300);

/// How a receiver receives.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Handlers, Memory, MemoryStore, Receiver, ReceiverOptions};
///
/// // Takes messages into the inbox, for a worker to handle later.
/// let options = ReceiverOptions::default().queued().body_max(64 * 1024).window(Duration::from_secs(24 * 3600));
/// let receiver = Receiver::<Memory>::with("inventory", MemoryStore::new(), Handlers::new(), [], options)?;
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiverOptions {
    pub(crate) queued: bool,
    pub(crate) answers_back: bool,
    pub(crate) window: Duration,
    pub(crate) body_max: usize,
    pub(crate) unverified_max: usize,
    pub(crate) in_flight: usize,
    pub(crate) handler_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) hooks: Vec<Hook>,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            queued: false,
            answers_back: true,
            window: Duration::from_secs(29 * 24 * 3600),
            body_max: 4 * 1024 * 1024,
            unverified_max: 16 * 1024 * 1024,
            in_flight: 512,
            handler_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            hooks: Vec::new(),
        }
    }
}

impl ReceiverOptions {
    /// Only accepts messages into the inbox, with 202; an inbox worker handles them, and the answer goes back as a
    /// Response by the outbox of the same store.
    #[must_use]
    pub fn queued(mut self) -> Self {
        self.queued = true;
        self
    }

    /// In the queued form: sends no answers back.
    #[must_use]
    pub fn without_answers(mut self) -> Self {
        self.answers_back = false;
        self
    }

    /// For how long a message is known again; 29 days unless told otherwise. What was enqueued and due longer ago is
    /// refused. The worker's inbox retention must be at least ten minutes longer.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// The largest request, in bytes; 4 MiB unless told otherwise.
    #[must_use]
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Requests that are verified only when they are whole, webhooks for instance, take no more than this in all while
    /// they come in; 16 MiB unless told otherwise, and never less than one of the largest. Those whose head is signed
    /// have four times as much room of their own. Who finds no room is told to come back.
    #[must_use]
    pub fn unverified_max(mut self, bytes: usize) -> Self {
        self.unverified_max = bytes;
        self
    }

    /// So many messages are handled at once, the others are told to come back; 512 unless told otherwise.
    #[must_use]
    pub fn in_flight(mut self, messages: usize) -> Self {
        self.in_flight = messages.min(u32::MAX as usize);
        self
    }

    /// A handler that takes longer has failed; 30 s unless told otherwise.
    #[must_use]
    pub fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.handler_timeout = timeout;
        self
    }

    /// A request whose body takes longer to come is given up; 30 s unless told otherwise.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Takes webhooks, at `/_rf/hooks/` and the hook's name.
    #[must_use]
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.window <= TOLERANCE {
            return Err(Error::invalid(format!("a window of {:?}; it must be longer than 300 s", self.window)));
        }
        if self.body_max == 0 || self.in_flight == 0 || self.handler_timeout.is_zero() {
            return Err(Error::invalid("body_max, in_flight and handler_timeout must be more than zero"));
        }
        Ok(self)
    }
}
