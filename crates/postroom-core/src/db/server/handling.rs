//! A handler's transaction: the user's writes, the messages it enqueues and the ack commit together, or not at all.

use std::sync::Arc;
use std::time::Duration;

use crate::db::server::{Began, Engine, Pooled, ServerConnection, ServerShared, ServerStore};
use crate::message::{Incoming, MessageId, NewMessage};
use crate::queue::{Lease, Queue};
use crate::sql::{Expects, Session, Statement};
use crate::store::sql::SqlVerbs;
use crate::store::{Admission, HandledMark, Stored};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::run_to_completion;
use crate::telemetry;

/// A transaction on a connection of its own. Dropped without an end, the connection is closed.
#[derive(Debug)]
pub(crate) struct HandlerTx<E: Engine> {
    pub(crate) link: Pooled<E>,
    pub(super) core: Arc<ServerShared<E>>,
    pub(super) enqueued: bool,
    /// The mark it put, and when.
    pub(super) marked: Option<(HandledMark, Timestamp)>,
}

impl<E: Engine> HandlerTx<E> {
    pub(crate) async fn begin(store: &ServerStore<E>) -> Result<Self> {
        let core = store.0.clone();
        run_to_completion(async move {
            let mut stale = 0;
            loop {
                let mut link = core.handler_pool.get().await?;
                match link.begin_for_handler().await.and_then(Began::writable) {
                    Ok(_) => return Ok(Self { link, core, enqueued: false, marked: None }),
                    // After a restart of the server every idle connection is stale, after a failover read-only.
                    Err(error)
                        if error.kind() == ErrorKind::Unavailable
                            && !link.is_fresh()
                            && stale <= core.handler_pool.size() =>
                    {
                        stale += 1;
                        core.handler_pool.close_idle();
                    }
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    pub(crate) async fn enqueue(&mut self, message: NewMessage) -> Result<Stored> {
        self.enqueued = true;
        let insert = self.core.verbs.insert(&message, self.core.clock.now());
        let done = self.link.execute(&insert).await?;
        let stored = Stored { id: message.work_item_id(), duplicate: done.duplicate };
        telemetry::Enqueued::of(std::slice::from_ref(&message)).tell(&self.core.name, &[stored]);
        Ok(stored)
    }

    pub(crate) async fn arrive(&mut self, incoming: &Incoming, hold: Duration) -> Result<Admission> {
        let now = self.core.clock.now();
        self.core.verbs.arrive(&mut *self.link, incoming, hold, now).await
    }

    pub(crate) async fn answer(&mut self, request: MessageId, from: &str, response: &str) -> Result<bool> {
        let now = self.core.clock.now();
        self.core.verbs.answer(&mut *self.link, (request, from), response, now).await
    }

    /// Acknowledges and commits. An error means that nothing of it is stored, or that nobody can say: then the lease
    /// decides.
    pub(crate) async fn commit(self, queue: Queue, lease: &Lease, response: Option<String>) -> Result<()> {
        let lease = lease.clone();
        run_to_completion(self.commit_to_the_end(queue, lease, response)).await
    }

    async fn commit_to_the_end(mut self, queue: Queue, lease: Lease, response: Option<String>) -> Result<()> {
        let core = self.core.clone();
        let ack = core.verbs.ack(queue, &lease, response.as_deref(), core.clock.now());
        if core.ack_outside {
            self.link.commit().await?;
            self.link.give_back();
            return core
                .write(ack, |_: &SqlVerbs, link: &mut E::ServerConnection, ack, _| {
                    Box::pin(async move { link.execute(ack).await.map(|_| ()) })
                })
                .await;
        }
        if let Err(error) = self.acknowledge(&ack.expecting(Expects::RowOrLeaseLost)).await {
            self.roll_back().await;
            return Err(error);
        }
        match self.link.commit().await {
            Ok(()) => self.link.give_back(),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                telemetry::commit_in_doubt(&core.name, &error);
                drop(self.link);
                read_back(&core, queue, lease, error).await?;
            }
            Err(error) => return Err(error),
        }
        if self.enqueued {
            core.rang(Queue::Outbox);
        }
        Ok(())
    }

    async fn acknowledge(&mut self, ack: &Statement) -> Result<()> {
        self.link.check_open().await?;
        self.link.execute(ack).await.map(|_| ())
    }

    /// Undoes everything. False when the connection is gone: then it is undone without us.
    pub(crate) async fn roll_back(mut self) -> bool {
        let is_undone = self.link.roll_back().await.is_ok();
        if is_undone {
            self.link.give_back();
        }
        is_undone
    }
}

/// Whether a commit without an answer was one. The row says: while the server still works on the commit it is locked,
/// and the question waits.
async fn read_back<E: Engine>(
    core: &Arc<ServerShared<E>>,
    queue: Queue,
    lease: Lease,
    unanswered: Error,
) -> Result<()> {
    let committed = core
        .write((queue, lease), |verbs: &SqlVerbs, link: &mut E::ServerConnection, (queue, lease), _| {
            Box::pin(async move {
                if verbs.is_held(link, *queue, lease).await? {
                    return Ok(false);
                }
                verbs.acked_before(link, *queue, lease).await
            })
        })
        .await;
    judged(committed, unanswered)
}

/// What is known by now of a commit without an answer.
pub(super) fn judged(committed: Result<bool>, unanswered: Error) -> Result<()> {
    match committed {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Error::new(ErrorKind::NotCommitted, "the connection broke before the commit").caused_by(unanswered))
        }
        Err(error) => Err(error.caused_by(unanswered)),
    }
}
