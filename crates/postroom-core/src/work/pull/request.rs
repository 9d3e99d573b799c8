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

    crate::setters! {
        /// Asks for at most this many messages.
        pub fn limit(mut self, messages: usize) { self.limit = messages; }

        /// Sets how long the messages are leased.
        pub fn lease(mut self, lease: Duration) { self.lease = lease; }

        /// Sets how long to wait for the first message; at most a day.
        pub fn wait(mut self, wait: Duration) { self.wait = wait.min(WAIT_MAX); }

        /// Sets how many bytes of payloads and headers to return at most; a single message may be larger.
        pub fn bytes_max(mut self, bytes: usize) { self.bytes_max = bytes; }
    }
}
