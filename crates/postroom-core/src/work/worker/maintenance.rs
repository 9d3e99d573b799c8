//! Regular maintenance of a store: reap, expire, delete and count, in bounded steps, one worker at a time.

use std::sync::Arc;

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::{Queue, State};
use crate::support::error::Result;
use crate::telemetry;
use crate::work::worker::WorkerOptions;

/// The number of rows in one transaction.
const STEP_ROWS: usize = 1000;

pub(crate) async fn run(queue: WorkQueue, options: Arc<WorkerOptions>) {
    match queue.take_maintenance(options.maintenance).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return telemetry::maintenance_failed(queue.named(), &error),
    }
    // If counting fails, rows are still deleted, and the other way round.
    for done in [tidy(&queue, &options).await, measure(&queue).await] {
        if let Err(error) = done {
            telemetry::maintenance_failed(queue.named(), &error);
        }
    }
}

async fn tidy(queue: &WorkQueue, options: &WorkerOptions) -> Result<()> {
    for kind in [Queue::Outbox, Queue::Inbox] {
        let queue = queue.sibling(kind);
        loop {
            let reaped = queue.reap(STEP_ROWS).await?;
            if reaped.total() < STEP_ROWS as u64 {
                break;
            }
        }
        queue.stops().await?;
        while queue.expire(STEP_ROWS).await? == STEP_ROWS as u64 {}
        while queue.expire_dead(STEP_ROWS).await? == STEP_ROWS as u64 {}
        for state in State::PURGED {
            let Some(kept) = options.retention.of(kind, state) else { continue };
            while queue.purge_state(state, kept, STEP_ROWS).await? == STEP_ROWS as u64 {}
        }
    }
    if let Some(kept) = options.retention.dropped_early() {
        while queue.sibling(Queue::Inbox).drop_payloads(kept, STEP_ROWS).await?.is_some() {}
    }
    for queue in [Queue::Outbox, Queue::Inbox].map(|kind| queue.sibling(kind)) {
        if queue.is_time_check_due() {
            queue.correct_times().await?;
        }
    }
    while queue.sweep_keys(STEP_ROWS).await? == STEP_ROWS as u64 {}
    Ok(())
}

async fn measure(queue: &WorkQueue) -> Result<()> {
    for kind in [Queue::Outbox, Queue::Inbox] {
        queue.sibling(kind).measure().await?;
    }
    Ok(())
}
