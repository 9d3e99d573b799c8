//! Marks in memory. A mark of a handler's transaction is held until that ends, and a second attempt to add it waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::MemoryStore;
use crate::store::{BoxFuture, HandledMark, HandledMarks, Marked};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

#[derive(Debug, Default)]
pub(super) struct MarkTable {
    marks: Mutex<HashMap<HandledMark, Mark>>,
    /// Notified when a transaction that held a mark has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Mark {
    topic: String,
    marked_at: Timestamp,
    is_held: bool,
}

impl MarkTable {
    fn locked(&self) -> MutexGuard<'_, HashMap<HandledMark, Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the mark unless it exists. Returns false while a transaction holds it.
    fn try_put(&self, mark: &HandledMark, topic: &str, marked_at: Timestamp, is_held: bool) -> Put {
        let mut marks = self.locked();
        match marks.get(mark) {
            None => {
                marks.insert(mark.clone(), Mark { topic: topic.to_owned(), marked_at, is_held });
                Put::Done
            }
            Some(found) if found.is_held => Put::Wait,
            Some(_) => Put::Known,
        }
    }

    async fn put(&self, mark: &HandledMark, topic: &str, marked_at: Timestamp, is_held: bool) -> bool {
        loop {
            let ended = self.ended.notified();
            match self.try_put(mark, topic, marked_at, is_held) {
                Put::Done => return true,
                Put::Known => return false,
                Put::Wait => ended.await,
            }
        }
    }
}

enum Put {
    Done,
    Known,
    Wait,
}

impl MemoryStore {
    /// Returns the time of a mark that is added now.
    fn late(&self) -> Timestamp {
        let (now, doubt) = self.time();
        doubt.late(now)
    }

    /// Holds a mark until the returned guard is kept or dropped. Returns `None` if the mark exists.
    pub(crate) async fn hold_mark(&self, mark: &HandledMark, topic: &str) -> Option<Held> {
        let is_new = self.0.marks.put(mark, topic, self.late(), true).await;
        is_new.then(|| Held { store: self.clone(), mark: mark.clone(), is_kept: false })
    }
}

/// A mark of a handler's transaction. Dropping this removes it.
#[derive(Debug)]
pub(crate) struct Held {
    store: MemoryStore,
    mark: HandledMark,
    is_kept: bool,
}

impl Held {
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let table = &self.store.0.marks;
        let mut marks = table.locked();
        if !self.is_kept {
            marks.remove(&self.mark);
        } else if let Some(mark) = marks.get_mut(&self.mark) {
            mark.is_held = false;
        }
        drop(marks);
        table.ended.notify_waiters();
    }
}

impl HandledMarks for MemoryStore {
    fn put_mark(&self, mark: HandledMark, topic: String) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        Box::pin(async move {
            let marked_at = self.late();
            Ok(self.0.marks.put(&mark, &topic, marked_at, false).await.then_some(marked_at))
        })
    }

    fn find_mark(&self, mark: HandledMark) -> BoxFuture<'_, Result<Option<Marked>>> {
        let marks = self.0.marks.locked();
        let found = marks.get(&mark).filter(|found| !found.is_held);
        let found = found.map(|found| Marked { topic: found.topic.clone(), at: found.marked_at });
        Box::pin(std::future::ready(Ok(found)))
    }

    fn remove_mark(&self, mark: HandledMark, marked_at: Timestamp) -> BoxFuture<'_, Result<bool>> {
        let mut marks = self.0.marks.locked();
        let is_ours = marks.get(&mark).is_some_and(|found| !found.is_held && found.marked_at == marked_at);
        if is_ours {
            marks.remove(&mark);
        }
        Box::pin(std::future::ready(Ok(is_ours)))
    }

    fn purge_marks(&self, handler: Arc<str>, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        let (now, doubt) = self.time();
        let before = doubt.early(now).minus(retention);
        let mut marks = self.0.marks.locked();
        let is_old =
            |(id, mark): &(&HandledMark, &Mark)| id.handler == handler && mark.marked_at < before && !mark.is_held;
        let old: Vec<HandledMark> = marks.iter().filter(is_old).map(|(id, _)| id.clone()).take(limit).collect();
        marks.retain(|id, _| !old.contains(id));
        Box::pin(std::future::ready(Ok(old.len() as u64)))
    }
}
