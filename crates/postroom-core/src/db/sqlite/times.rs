//! Times that a wrong clock gave, on SQLite: corrected in steps, each a job for the writer.

use crate::db::sqlite::SqliteStore;
use crate::db::sqlite::blocking::now;
use crate::queue::Queue;
use crate::store::{BoxFuture, Times};
use crate::support::error::Result;

impl Times for SqliteStore {
    fn correct_times(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let (mut rows, mut from) = (0, None);
            loop {
                let correct =
                    self.ringing(queue, move |verbs, conn, time| now(verbs.correct_times(conn, queue, from, time)));
                let step = correct.await?;
                (rows, from) = (rows + step.rows, step.next);
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
