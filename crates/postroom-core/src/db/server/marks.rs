//! Marks on a database server, and a handler's transaction that ends without an ack.

use std::sync::Arc;

use crate::db::server::{Engine, HandlerTx, ServerConnection, ServerShared, handling};
use crate::queue::Queue;
use crate::store::HandledMark;
use crate::store::sql::SqlVerbs;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::run_to_completion;
use crate::telemetry;

impl<E: Engine> HandlerTx<E> {
    /// Puts a mark that is there from the commit on; false when it is there already.
    pub(crate) async fn mark(&mut self, mark: &HandledMark, topic: &str) -> Result<bool> {
        let now = self.core.clock.now();
        let marked_at = self.core.verbs.put_mark(&mut *self.link, mark, topic, now).await?;
        self.marked = marked_at.map(|at| (mark.clone(), at));
        Ok(marked_at.is_some())
    }

    /// Commits. An error means that nothing of it is stored, except one of kind `InDoubt`: then nobody can say.
    pub(crate) async fn commit_unacked(self) -> Result<()> {
        run_to_completion(self.conclude_to_the_end()).await
    }

    async fn conclude_to_the_end(mut self) -> Result<()> {
        if let Err(error) = self.link.seal().await {
            self.roll_back().await;
            return Err(error);
        }
        match self.link.commit().await {
            Ok(()) => self.link.give_back(),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                telemetry::commit_in_doubt(&self.core.name, &error);
                drop(self.link);
                read_back(&self.core, self.marked, error).await?;
            }
            Err(error) => return Err(error),
        }
        if self.enqueued {
            self.core.rang(Queue::Outbox);
        }
        Ok(())
    }
}

/// Whether a commit without an answer was one. Its mark says; without a mark nobody does.
async fn read_back<E: Engine>(
    core: &Arc<ServerShared<E>>,
    marked: Option<(HandledMark, Timestamp)>,
    unanswered: Error,
) -> Result<()> {
    let Some(marked) = marked else {
        return Err(Error::new(ErrorKind::InDoubt, "the connection broke at the commit").caused_by(unanswered));
    };
    let committed = core
        .write(marked, |verbs: &SqlVerbs, link: &mut E::ServerConnection, (mark, marked_at), now| {
            Box::pin(verbs.is_marked(link, mark, *marked_at, now))
        })
        .await;
    match committed {
        Ok(_) => handling::judged(committed, unanswered),
        Err(error) => Err(Error::new(ErrorKind::InDoubt, error.to_string()).caused_by(unanswered)),
    }
}
