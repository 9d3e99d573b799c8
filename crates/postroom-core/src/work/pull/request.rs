//! What a service that pulls asks for.

use std::time::Duration;

use crate::queue::Topics;

/// The longest possible wait, because a clock cannot represent every time.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a service that pulls asks for: by default ten messages for 30 s each, at most 4 MiB, without waiting.
///
/// ```
/// use std::time::Duration;
/// use postroom::queue::{PullRequest, Topics};
///
/// let request = PullRequest::new(Topics::only(["order.placed"])?).limit(50).wait(Duration::from_secs(20));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PullRequest {
    pub(super) topics: Topics,
    pub(super) limit: usize,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    pub(super) bytes_max: usize,
}

impl PullRequest {
    /// Asks for messages of these topics.
    pub fn new(topics: Topics) -> Self {
        let (lease, wait) = (Duration::from_secs(30), Duration::ZERO);
        Self { topics, limit: 10, lease, wait, bytes_max: 4 * 1024 * 1024 }
    }

    /// Asks for at most this many messages.
    #[must_use]
    pub fn limit(mut self, messages: usize) -> Self {
        self.limit = messages;
        self
    }

    /// Sets how long the messages are leased.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long to wait for the first message; at most a day.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(WAIT_MAX);
        self
    }

    /// Sets how many bytes of payloads and headers to return at most; a single message may be larger.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }
}
