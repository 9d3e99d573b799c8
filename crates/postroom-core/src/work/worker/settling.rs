//! Settles until the database has confirmed it.

use std::sync::Arc;
use std::time::Duration;

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::Settle;
use crate::support::clock::monotonic;
use crate::telemetry;
use crate::work::worker::WorkerOptions;
use crate::work::worker::probe::Point;

/// Settles, and retries while the database is unreachable and the leases may still be valid.
pub(super) async fn settle(queue: WorkQueue, settles: Vec<Settle>, options: Arc<WorkerOptions>) {
    let settles = Arc::new(settles);
    let until = monotonic() + options.lease;
    let mut pause = Duration::from_millis(10);
    loop {
        match queue.settle_shared(settles.clone()).await {
            Ok(settled) => {
                if settled.lost > 0 {
                    options.reached(Point::LeaseLost);
                }
                return;
            }
            Err(error) if error.is_transient() && monotonic() + pause < until => {
                tokio::time::sleep_until((monotonic() + pause).into()).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(error) => return telemetry::settle_failed(queue.named(), settles.len(), &error),
        }
    }
}
