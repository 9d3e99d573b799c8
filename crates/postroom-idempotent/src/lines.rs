//! Queues the deliveries of one message in this process, so that only the first of them takes a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use postroom_core::message::InboxKey;

/// The queue of one message. The flag says whether an earlier delivery has handled it.
type Line = Arc<tokio::sync::Mutex<bool>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Mutex<HashMap<InboxKey, Line>>>);

impl Lines {
    fn locked(&self) -> MutexGuard<'_, HashMap<InboxKey, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other delivery of the message is in progress in this process.
    pub(super) async fn turn(&self, key: &InboxKey) -> Turn {
        // It leaves the queue even if nobody waits for the turn any more.
        let mut turn = Turn { lines: self.clone(), key: key.clone(), held: None };
        let line = self.locked().entry(key.clone()).or_default().clone();
        turn.held = Some(line.lock_owned().await);
        turn
    }
}

/// The turn of one delivery. It leaves the queue when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    lines: Lines,
    key: InboxKey,
    held: Option<OwnedMutexGuard<bool>>,
}

impl Turn {
    /// Returns whether an earlier delivery has handled the message, so that the database need not be asked.
    pub(super) fn is_handled(&self) -> bool {
        self.held.as_deref().is_some_and(|is_handled| *is_handled)
    }

    /// Records that the message is handled, so that later deliveries need not ask the database.
    pub(super) fn handled(&mut self) {
        if let Some(is_handled) = self.held.as_deref_mut() {
            *is_handled = true;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.lines.locked();
        self.held = None;
        if lines.get(&self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_line_is_gone_when_the_last_one_leaves_it() {
        let (lines, key) = (Lines::default(), InboxKey::new("broker", "1").unwrap());
        let mut first = lines.turn(&key).await;
        let mut waiting = Box::pin(lines.turn(&key));
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut gave_up = Box::pin(lines.turn(&key));
        assert!(gave_up.as_mut().now_or_never().is_none());
        drop(gave_up);
        first.handled();
        drop(first);
        let second = waiting.await;
        assert!(second.is_handled());
        drop(second);
        assert!(lines.locked().is_empty());
        assert!(!lines.turn(&key).await.is_handled());
    }
}
