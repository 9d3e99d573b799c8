//! Handlers on the in-memory store. The messages that they enqueue are kept until they succeed.

use std::convert::Infallible;
use std::time::Duration;

use crate::message::{Incoming, MessageId, NewMessage, WorkItemId};
use crate::queue::Settle;
use crate::store::memory::{Arrived, Held};
use crate::store::{Admission, HandledMark, MemoryStore, Stored};
use crate::support::error::{Error, ErrorKind, Result};
use crate::work::handler::{Ack, Backend};

/// The in-memory store, as handlers see it.
///
/// ```
/// use postroom::{Handlers, Worker};
/// use postroom::store::{Memory, MemoryStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let worker = Worker::<Memory>::inbox(MemoryStore::new(), Handlers::new());
/// worker.run(async { /* until this is ready */ }).await?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Memory {}

/// A handler's transaction on the in-memory store. The outbox is the only table to write to.
#[derive(Debug)]
pub struct MemoryTx {
    store: MemoryStore,
    enqueued: Vec<NewMessage>,
    answers: Vec<(WorkItemId, String)>,
    /// Undone if it is dropped without a commit.
    arrived: Option<Arrived>,
    /// Undone in the same way.
    marked: Option<Held>,
}

impl Backend for Memory {
    type Store = MemoryStore;
    type Tx = MemoryTx;
    type Conn<'t> = &'t mut MemoryTx;
    type Blocking = Infallible;

    async fn begin(store: &MemoryStore, _: Duration) -> Result<MemoryTx> {
        let (enqueued, answers) = (Vec::new(), Vec::new());
        Ok(MemoryTx { store: store.clone(), enqueued, answers, arrived: None, marked: None })
    }

    fn conn(tx: &mut MemoryTx) -> &mut MemoryTx {
        tx
    }

    async fn enqueue(tx: &mut MemoryTx, message: NewMessage) -> Result<Stored> {
        tx.enqueued.push(message);
        let stored = tx.store.would_store(&tx.enqueued);
        if stored.is_err() {
            tx.enqueued.pop();
        }
        stored
    }

    async fn arrive(tx: &mut MemoryTx, incoming: &Incoming, hold: Duration) -> Result<Admission> {
        let (admission, arrived) = tx.store.arrive(incoming, hold);
        tx.arrived = arrived;
        Ok(admission)
    }

    async fn answer(tx: &mut MemoryTx, request: MessageId, from: &str, response: &str) -> Result<bool> {
        let id = WorkItemId::of(request, Some(from));
        tx.answers.push((id, response.to_owned()));
        Ok(tx.store.knows(id))
    }

    async fn mark(tx: &mut MemoryTx, mark: &HandledMark, topic: &str) -> Result<bool> {
        tx.marked = tx.store.hold_mark(mark, topic).await;
        Ok(tx.marked.is_some())
    }

    async fn commit(mut tx: MemoryTx, ack: Option<Ack<'_>>) -> Result<()> {
        let ack = ack.map(|(queue, lease, response)| (queue, Settle::ack_with(lease.clone(), response)));
        if !tx.store.commit(ack, &tx.enqueued, &tx.answers) {
            return Err(Error::new(ErrorKind::LeaseLost, "the lease was lost: another worker may hold the message"));
        }
        tx.arrived.take().into_iter().for_each(Arrived::keep);
        tx.marked.take().into_iter().for_each(Held::keep);
        Ok(())
    }

    async fn roll_back(_: MemoryTx) -> bool {
        true
    }
}
