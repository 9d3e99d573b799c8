//! A handler's transaction: the user's writes, the messages it enqueues and the ack are committed together, or not at
//! all.

use std::sync::Arc;

use crate::db::server::{Engine, Pooled, ServerConnection, ServerShared, ServerStore};
use crate::queue::{Lease, Queue};
use crate::sql::{Expects, Session, Statement};
use crate::store::HandledMark;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::run_to_completion;
use crate::telemetry;

/// A transaction on its own connection. If it is dropped before it ends, the connection is closed.
#[allow(private_bounds, reason = "the engines are this crate's own")]
#[derive(Debug)]
pub struct HandlerTx<E: Engine> {
    pub(super) link: Pooled<E>,
    pub(super) core: Arc<ServerShared<E>>,
    pub(super) enqueued: bool,
    /// The mark that it set, and when.
    pub(super) marked: Option<(HandledMark, Timestamp)>,
}

/// What a transaction acknowledges, and with which answer.
type Acked = (Queue, Lease, Option<String>);

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> HandlerTx<E> {
    pub(super) async fn begin(store: &ServerStore<E>) -> Result<Self> {
        let core = store.0.clone();
        let mut stale = 0;
        loop {
            // If the caller stops waiting here, the connection is closed, and nothing was written.
            let mut link = core.handler_pool.get().await?;
            match link.begin_for_handler().await {
                Ok(()) => return Ok(Self { link, core, enqueued: false, marked: None }),
                // After a restart of the server every idle connection is stale; after a failover it is read-only.
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
    }

    /// Acknowledges, if there is something to acknowledge, and commits. An error means that nothing was stored, or that
    /// the outcome is unknown: then the lease decides. Without an ack, an unknown outcome is an error of kind
    /// `InDoubt`.
    pub(super) async fn commit(self, acked: Option<Acked>) -> Result<()> {
        run_to_completion(self.commit_to_the_end(acked)).await
    }

    async fn commit_to_the_end(mut self, acked: Option<Acked>) -> Result<()> {
        let core = self.core.clone();
        let ack = acked.as_ref().map(|(queue, lease, response)| {
            core.verbs.ack(*queue, lease, response.as_deref(), core.clock.now()).expecting(Expects::RowOrLeaseLost)
        });
        if let Some(ack) = ack.clone().filter(|_| core.ack_outside) {
            self.link.commit().await?;
            self.link.give_back();
            return core.write(ack, |_, link, ack, _| Box::pin(async { link.execute(ack).await.map(|_| ()) })).await;
        }
        if let Err(error) = self.seal(ack.as_ref()).await {
            self.roll_back().await;
            return Err(error);
        }
        match self.link.commit_for_handler().await {
            Ok(()) => self.link.give_back(),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                telemetry::commit_in_doubt(&core.name, &error);
                drop(self.link);
                match acked {
                    Some((queue, lease, _)) => read_back(&core, queue, lease, error).await?,
                    None => read_mark_back(&core, self.marked, error).await?,
                }
            }
            Err(error) => return Err(error),
        }
        if self.enqueued {
            core.rang(Queue::Outbox);
        }
        Ok(())
    }

    /// The last statement before the commit.
    async fn seal(&mut self, ack: Option<&Statement>) -> Result<()> {
        let Some(ack) = ack else { return self.link.seal().await };
        self.link.check_open().await?;
        self.link.execute(ack).await.map(|_| ())
    }

    /// Rolls everything back. False if the connection is gone: then the server rolls it back by itself.
    pub(super) async fn roll_back(mut self) -> bool {
        let is_undone = self.link.roll_back().await.is_ok();
        if is_undone {
            self.link.give_back();
        }
        is_undone
    }
}

/// Whether a commit without an answer succeeded. The row shows it: while the server still works on the commit, the row
/// is locked, and the question waits.
async fn read_back<E: Engine>(
    core: &Arc<ServerShared<E>>,
    queue: Queue,
    lease: Lease,
    unanswered: Error,
) -> Result<()> {
    let committed = core.ask((queue, lease), |verbs, link, (queue, lease), _| {
        Box::pin(async move {
            if verbs.is_held(link, *queue, lease).await? {
                return Ok(false);
            }
            verbs.acked_before(link, *queue, lease).await
        })
    });
    judged(committed.await, unanswered)
}

/// The same for a transaction that acknowledged nothing. Its mark shows it; without a mark it stays unknown.
async fn read_mark_back<E: Engine>(
    core: &Arc<ServerShared<E>>,
    marked: Option<(HandledMark, Timestamp)>,
    unanswered: Error,
) -> Result<()> {
    let Some(marked) = marked else {
        return Err(Error::new(ErrorKind::InDoubt, "the connection broke at the commit").caused_by(unanswered));
    };
    let committed =
        core.ask(marked, |verbs, link, (mark, marked_at), now| Box::pin(verbs.is_marked(link, mark, *marked_at, now)));
    let committed = committed.await.map_err(|error| Error::new(ErrorKind::InDoubt, error.to_string()));
    judged(committed, unanswered)
}

/// The result of a commit without an answer, by what is known now.
fn judged(committed: Result<bool>, unanswered: Error) -> Result<()> {
    match committed {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Error::new(ErrorKind::NotCommitted, "the connection broke before the commit").caused_by(unanswered))
        }
        Err(error) => Err(error.caused_by(unanswered)),
    }
}
