//! Cancels messages that nobody needs any more, whether they wait or are in progress.

use tracing::Instrument;

use crate::mailbox::work_queue::WorkQueue;
use crate::message::check_name;
use crate::queue::Queue;
use crate::store::{Cancelled, CancelledLane, LaneStep, Stop, Target};
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;

/// The messages of a lane that are cancelled in one transaction.
const STEP: usize = 100;

impl WorkQueue {
    /// Cancels a message by the number of its row, and returns what became of it: see
    /// [`Outbox::cancel`](crate::Outbox::cancel). On behalf of an operator ([`by`](Self::by)), it is an entry of the
    /// audit trail, and the name and the reason are stored with the message.
    ///
    /// ```
    /// # use postroom::{NewMessage, Outbox};
    /// # use postroom::store::MemoryStore;
    /// use postroom::operator::{Act, Filter, Operator};
    /// use postroom::queue::Cancelled;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let outbox = Outbox::new(MemoryStore::new());
    /// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
    /// let message = outbox.queue().list(Filter::all()).await?.remove(0);
    /// let ada = Operator::new("ada")?.because("ordered twice")?;
    /// assert_eq!(outbox.queue().by(ada).cancel(message.seq()).await?, Cancelled::Waiting);
    /// assert_eq!(outbox.queue().audit(1).await?[0].act(), Act::Cancel);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn cancel(&self, seq: i64) -> Result<Cancelled> {
        self.cancel_target(Target::Row(seq)).await
    }

    /// Cancels the message of the outbox that has a [unique key](crate::message::Unique), or had it last: see
    /// [`Outbox::cancel_key`](crate::Outbox::cancel_key).
    pub async fn cancel_key(&self, key: &str) -> Result<Cancelled> {
        check_name("unique key", key)?;
        if self.queue == Queue::Inbox {
            return Err(Error::invalid("only messages of the outbox have unique keys"));
        }
        match self.store.holder(key.to_owned()).await? {
            Some(id) => self.cancel_target(Target::Outgoing(id)).await,
            None => Ok(Cancelled::Unknown),
        }
    }

    pub(crate) async fn cancel_target(&self, target: Target) -> Result<Cancelled> {
        let span = telemetry::verb_span("cancel", self.named());
        let told = target.to_string();
        let cancelled = self.store.cancel(self.queue, target, self.deed()).instrument(span).await?;
        telemetry::cancelled(self.named(), &told, cancelled);
        Ok(cancelled)
    }

    /// Cancels every message of a lane that waits or is in progress, and returns how many. It works in steps; what is
    /// enqueued meanwhile may be cancelled too. Dead letters of the lane stay: [dismiss](Self::dismiss) them.
    pub async fn cancel_lane(&self, lane: &str) -> Result<CancelledLane> {
        check_name("lane", lane)?;
        if !self.store.keeps_lanes() {
            return Err(Error::new(ErrorKind::Unsupported, "this database has no lanes"));
        }
        let (mut cancelled, mut after) = (CancelledLane::default(), Some(0));
        while let Some(place) = after {
            let step = LaneStep { lane: lane.to_owned(), after: place, limit: STEP };
            let span = telemetry::verb_span("cancel_lane", self.named());
            let stepped = self.store.cancel_lane(self.queue, step, self.deed()).instrument(span).await?;
            cancelled.add(stepped.cancelled);
            after = stepped.last;
        }
        telemetry::lane_cancelled(self.named(), lane, cancelled);
        Ok(cancelled)
    }

    /// Returns the messages in progress that are to stop. Those that an ack saved from it are forgotten.
    pub(crate) async fn stops(&self) -> Result<Vec<Stop>> {
        let stops = self.store.stops(self.queue).await?;
        if stops.iter().any(|stop| !stop.is_held) {
            self.store.sweep_stops(self.queue).await?;
        }
        Ok(stops)
    }
}
