//! The options of a receiver.

use std::time::Duration;

use super::Hook;
use postroom_core::support::error::{Error, Result};

/// The time of a signature may differ from our clock by this much, in both directions.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(300);

/// The options of a receiver.
///
/// ```
/// use std::time::Duration;
/// use postroom::Handlers;
/// use postroom::services::{Receiver, ReceiverOptions};
/// use postroom::store::{Memory, MemoryStore};
///
/// // This receiver puts messages in the inbox, and a worker handles them later.
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
    postroom_core::setters! {
        /// Puts messages in the inbox and answers 202. An inbox worker handles them later, and the answer goes back as
        /// a Response through the outbox of the same store.
        pub fn queued(mut self) { self.queued = true; }

        /// Sends no answers back in queued mode.
        pub fn without_answers(mut self) { self.answers_back = false; }

        /// Sets the dedupe window, which is how long duplicates are recognised; 29 days by default. Messages that were
        /// enqueued and due longer ago are refused. The worker's inbox retention must be at least ten minutes longer.
        pub fn window(mut self, window: Duration) { self.window = window; }

        /// Sets the size of the largest request, in bytes; 4 MiB by default.
        pub fn body_max(mut self, bytes: usize) { self.body_max = bytes; }

        /// Limits the memory for requests that can be verified only when they are complete, such as webhooks. Together
        /// they take at most this many bytes while they are read; 16 MiB by default, and never less than one request of
        /// the largest size. One address, or one IPv6 network, takes at most a quarter of it, or one request of the
        /// largest size; this needs a [`Listener`](crate::Listener), because another server does not tell the address.
        /// Requests with a signed head have separate room, four times as much. A sender that finds no room is asked to
        /// come back later.
        pub fn unverified_max(mut self, bytes: usize) { self.unverified_max = bytes; }

        /// Handles at most this many messages at once; 512 by default. Senders of further messages are asked to come
        /// back later.
        pub fn in_flight(mut self, messages: usize) { self.in_flight = messages.min(u32::MAX as usize); }

        /// Sets the time limit for a handler; 30 s by default. A handler that takes longer has failed.
        pub fn handler_timeout(mut self, timeout: Duration) { self.handler_timeout = timeout; }

        /// Sets the time limit for reading a body; 30 s by default. A request that takes longer is refused.
        pub fn body_timeout(mut self, timeout: Duration) { self.body_timeout = timeout; }

        /// Accepts webhooks at `/_rf/hooks/` followed by the hook's name.
        pub fn hook(mut self, hook: Hook) { self.hooks.push(hook); }
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.window <= TOLERANCE {
            return Err(Error::invalid(format!("the window is {:?}; it must be longer than 300 s", self.window)));
        }
        if self.body_max == 0 || self.in_flight == 0 || self.handler_timeout.is_zero() {
            return Err(Error::invalid("body_max, in_flight and handler_timeout must be more than zero"));
        }
        Ok(self)
    }
}
