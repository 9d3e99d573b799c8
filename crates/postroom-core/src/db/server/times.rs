//! Times that a wrong clock gave, on a database server: corrected in steps, each a transaction.

use crate::db::server::{Engine, ServerStore};
use crate::queue::Queue;
use crate::store::{BoxFuture, Times};
use crate::support::error::Result;

impl<E: Engine> Times for ServerStore<E> {
    fn correct_times(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let (mut rows, mut from) = (0, None);
            loop {
                let correct = self.verb((queue, from), |verbs, link, (queue, from), now| {
                    Box::pin(verbs.correct_times(link, *queue, *from, now))
                });
                let step = correct.await?;
                (rows, from) = (rows + step.rows, step.next);
                if step.rows > 0 {
                    self.0.rang(queue);
                }
                if from.is_none() {
                    return Ok(rows);
                }
            }
        })
    }

    fn is_time_check_due(&self, queue: Queue) -> bool {
        self.0.verbs.is_time_check_due(queue)
    }
}
