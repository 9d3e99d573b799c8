//! Group commit on the client side: messages that many callers enqueue at the same time travel as one statement and
//! commit once. No message waits for others to join it: a single message is sent at once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::db::server::{Engine, ServerShared, Signal};
use crate::message::NewMessage;
use crate::queue::Queue;
use crate::store::Stored;
use crate::store::sql::by_lock;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::in_background;

/// How many groups are written at the same time: while one waits for the disk, the next is written.
const GROUPS: usize = 2;
/// The most messages in a group.
const GROUP_ROWS_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Gatherer(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    waiting: Vec<Caller>,
    groups: usize,
}

#[derive(Debug)]
struct Caller {
    messages: Vec<NewMessage>,
    reply: oneshot::Sender<Result<Vec<Stored>>>,
}

impl Gatherer {
    /// The callers that wait now, up to the size of a group; `None` ends the group that asks.
    fn next(&self) -> Option<Vec<Caller>> {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gathered.waiting.is_empty() {
            gathered.groups -= 1;
            return None;
        }
        let mut rows = 0;
        let fits = gathered.waiting.iter().take_while(|caller| {
            rows += caller.messages.len();
            rows <= GROUP_ROWS_MAX
        });
        let count = fits.count().max(1);
        Some(gathered.waiting.drain(..count).collect())
    }

    /// Adds a caller to the waiting ones; true if a new group has to be started for it.
    fn join(&self, caller: Caller) -> bool {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.waiting.push(caller);
        let begins = gathered.groups < GROUPS;
        gathered.groups += usize::from(begins);
        begins
    }
}

impl<E: Engine> ServerShared<E> {
    pub(super) async fn gather(self: &Arc<Self>, messages: Vec<NewMessage>) -> Result<Vec<Stored>> {
        if messages.iter().any(|message| message.unique.is_some()) {
            // What waits for a unique key must not hold up others: they have other groups, and connections are left.
            let permit = self.keyed.acquire().await;
            let _permit = permit.map_err(|_| Error::new(ErrorKind::Closed, "the store was closed"))?;
            return self.store(messages).await;
        }
        if messages.len() > GROUP_ROWS_MAX {
            return self.store(messages).await;
        }
        let (reply, answer) = oneshot::channel();
        // What waits for somebody's open transaction, because of its lane, must not hold up others.
        let has_lane = || messages.iter().any(|message| message.lane.is_some());
        let which = usize::from(self.verbs.inserts_wait_for_lanes() && has_lane());
        if self.gatherers[which].join(Caller { messages, reply }) {
            drop(in_background(send_groups(self.clone(), which)));
        }
        answer.await.map_err(|_| Error::new(ErrorKind::Closed, "the runtime is shutting down"))?
    }

    async fn store(self: &Arc<Self>, messages: Vec<NewMessage>) -> Result<Vec<Stored>> {
        let keeps_order = messages.iter().any(|message| message.unique.is_some());
        if keeps_order || !self.verbs.inserts_wait_for_lanes() || messages.iter().all(|one| one.lane.is_none()) {
            return self.store_as_they_are(messages).await;
        }
        let (messages, places) = by_lock(messages);
        let mut stored: Vec<_> = places.into_iter().zip(self.store_as_they_are(messages).await?).collect();
        stored.sort_unstable_by_key(|(place, _)| *place);
        Ok(stored.into_iter().map(|(_, stored)| stored).collect())
    }

    async fn store_as_they_are(self: &Arc<Self>, messages: Vec<NewMessage>) -> Result<Vec<Stored>> {
        let news = Arc::new(if messages.len() == 1 { self.signal.news() } else { None });
        let stored = self.write_autocommit(
            (messages, news.clone()),
            |verbs, link, (messages, news), now| {
                Box::pin(verbs.autocommit_enqueue(link, messages, news.as_ref().as_ref(), now))
            },
            |verbs, link, (messages, _), now| Box::pin(verbs.enqueue(link, messages, now)),
        );
        let stored = stored.await?;
        // Before the callers get their answers, because workers need longer to start.
        match &*news {
            Some(news) if news.is_told.load(Ordering::SeqCst) => self.wakes[Queue::Outbox.index()].ring(),
            _ => self.rang(Queue::Outbox),
        }
        Ok(stored)
    }
}

async fn send_groups<E: Engine>(core: Arc<ServerShared<E>>, which: usize) {
    while let Some(callers) = core.gatherers[which].next() {
        let messages = callers.iter().flat_map(|caller| caller.messages.clone()).collect();
        match core.store(messages).await {
            Ok(stored) => {
                let mut stored = stored.into_iter();
                for caller in callers {
                    let own = stored.by_ref().take(caller.messages.len()).collect();
                    let _ = caller.reply.send(Ok(own));
                }
            }
            // One message of the group is at fault, or none is: each is tried by itself.
            Err(error) if callers.len() > 1 && !error.is_transient() => {
                for caller in callers {
                    let _ = caller.reply.send(core.store(caller.messages).await);
                }
            }
            Err(error) => callers.into_iter().for_each(|caller| drop(caller.reply.send(Err(copy(&error))))),
        }
    }
}

/// A copy of the error for each caller of a group.
fn copy(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
