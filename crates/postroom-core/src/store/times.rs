//! Times from a wrong clock.

use crate::queue::Queue;
use crate::store::BoxFuture;
use crate::support::error::Result;

/// What a store does about messages that were written while a clock was wrong.
///
/// Implemented by the stores of this crate; its shape may change in any release.
/// [`WorkQueue::correct_times`](crate::WorkQueue::correct_times) is how it is used.
///
/// ```
/// use postroom::queue::Queue;
/// use postroom::store::{MemoryStore, Times};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// assert_eq!(store.correct_times(Queue::Outbox).await?, 0);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub trait Times: Send + Sync {
    /// Corrects messages that wait only because a clock was wrong when they were written, and returns how many. These
    /// are messages that were enqueued, tried or leased at a time in the future. Due times that a caller set do not
    /// change.
    fn correct_times(&self, queue: Queue) -> BoxFuture<'_, Result<u64>>;

    /// Returns whether there may be messages to correct: nobody checked since the store was opened, or since its clock
    /// jumped.
    fn is_time_check_due(&self, queue: Queue) -> bool;
}
