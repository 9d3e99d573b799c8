//! Runs the actions of the page in separate tasks, so that closing the page does not stop one half-way.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use postroom::queue::Queue;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::admin::problem::Refusal;

/// One job at a time per queue, because two would count and change the same messages. Jobs stop with the node.
pub(super) struct Jobs {
    outbox: Arc<Semaphore>,
    inbox: Arc<Semaphore>,
    running: Mutex<JoinSet<()>>,
}

impl Default for Jobs {
    fn default() -> Self {
        let [outbox, inbox] = [(), ()].map(|()| Arc::new(Semaphore::new(1)));
        Self { outbox, inbox, running: Mutex::default() }
    }
}

impl Jobs {
    /// Starts a job and waits for its result. The job continues if the caller goes away.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        queue: Queue,
        doing: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        let place = match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        };
        let place = place.clone().try_acquire_owned().map_err(|_| {
            Refusal::new(
                StatusCode::CONFLICT,
                format!("another operator is changing the {queue}"),
                "wait until that is done",
            )
        })?;
        let (answer, answered) = oneshot::channel();
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            while running.try_join_next().is_some() {}
            running.spawn(async move {
                let done = doing.await;
                drop(place);
                // The caller may be gone.
                let _ = answer.send(done);
            });
        }
        let lost = |_| {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the action stopped half-way",
                "count again to see what is left",
            )
        };
        answered.await.map_err(lost)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_goes_on_when_nobody_waits_for_it_and_no_other_begins_beside_it() {
        let jobs = Jobs::default();
        let (begin, begun) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let job = jobs.run(Queue::Outbox, async move {
            let _ = begun.await;
            let _ = end.send(());
            Ok(())
        });
        // The job has started, and then the caller goes away.
        tokio::select! {
            biased;
            _ = job => panic!("the job ended before it was allowed to start"),
            () = std::future::ready(()) => {}
        }
        let beside = jobs.run(Queue::Outbox, async { Ok(()) }).await;
        assert_eq!(beside.unwrap_err().status(), StatusCode::CONFLICT.as_u16());
        assert!(jobs.run(Queue::Inbox, async { Ok(()) }).await.is_ok(), "the other queue is free");
        begin.send(()).unwrap();
        ended.await.unwrap();
        let free = jobs.outbox.acquire().await;
        drop(free);
        assert!(jobs.run(Queue::Outbox, async { Ok(()) }).await.is_ok());
    }
}
