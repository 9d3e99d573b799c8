//! The only loop: wait, claim, process, settle. It knows neither SQL nor wires; what to do with a message is the
//! business of its filling ([`Process`]).

mod flight;
mod gate;
mod options;
mod outcome;
mod probe;
mod quiet;
mod retention;
mod run;
mod settling;
mod turn;

pub(crate) use gate::Gate;
pub use options::WorkerOptions;
pub(crate) use outcome::Outcome;
#[cfg(feature = "testing")]
pub use probe::{Point, Probe};
pub use retention::Retention;
pub(crate) use run::{Process, Run};
pub(crate) use turn::Loop;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::dispatcher::Dispatcher;
use crate::error::Result;
use crate::handler::{Backend, Handlers, Runner};
use crate::queue::Queue;
use crate::transport::Transport;
use crate::workqueue::WorkQueue;

/// A worker on one queue of one store.
///
/// ```no_run
/// # use postroom::{Handlers, Sqlite, SqliteStore, Worker};
/// # async fn f(store: SqliteStore, handlers: Handlers<Sqlite>) -> postroom::Result<()> {
/// let shutdown = async { tokio::signal::ctrl_c().await.ok(); };
/// Worker::inbox(store, handlers).run(shutdown).await
/// # }
/// ```
pub struct Worker<B: Backend> {
    store: B::Store,
    queue: Queue,
    handlers: Handlers<B>,
    transport: Option<Arc<dyn Transport>>,
    options: WorkerOptions,
}

impl<B: Backend> Worker<B> {
    /// A worker that handles what is enqueued in the outbox and has no destination.
    pub fn outbox(store: B::Store, handlers: Handlers<B>) -> Self {
        Self { store, queue: Queue::Outbox, handlers, transport: None, options: WorkerOptions::default() }
    }

    /// A worker that handles what arrived in the inbox.
    pub fn inbox(store: B::Store, handlers: Handlers<B>) -> Self {
        Self { store, queue: Queue::Inbox, handlers, transport: None, options: WorkerOptions::default() }
    }

    /// Sends outbox messages that have a destination this way.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// With these options.
    #[must_use]
    pub fn options(mut self, options: WorkerOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs until `shutdown` is ready; then finishes what it holds, within the grace time, and gives the rest back.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let options = self.options.checked()?;
        let filling = Filling {
            handlers: Arc::new(self.handlers.checked()?),
            transport: self.transport,
            slots: Slots::new(options.concurrency),
        };
        let process = filling.process(&self.store, self.queue);
        let queue = WorkQueue::new(Arc::new(self.store), self.queue);
        Loop::new(queue, process, Arc::new(options), None).run(shutdown).await
    }
}

/// What workers do with messages: the same for every store they work on.
pub(crate) struct Filling<B: Backend> {
    pub(crate) handlers: Arc<Handlers<B>>,
    pub(crate) transport: Option<Arc<dyn Transport>>,
    pub(crate) slots: Slots,
}

/// How many handlers, and how many messages on their way to other services, there may be at once.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    handlers: Arc<Semaphore>,
    sends: Arc<Semaphore>,
}

impl Slots {
    pub(crate) fn new(concurrency: usize) -> Self {
        let concurrency = concurrency.min(Semaphore::MAX_PERMITS);
        Self { handlers: Arc::new(Semaphore::new(concurrency)), sends: Arc::new(Semaphore::new(concurrency)) }
    }
}

impl<B: Backend> Filling<B> {
    pub(crate) fn process(&self, store: &B::Store, queue: Queue) -> Arc<dyn Process> {
        let runner = Runner::<B>::new(store.clone(), queue, self.handlers.clone(), self.slots.handlers.clone());
        match queue {
            Queue::Inbox => Arc::new(runner),
            Queue::Outbox => {
                Arc::new(Dispatcher::new(store, Arc::new(runner), self.transport.clone(), self.slots.sends.clone()))
            }
        }
    }
}

impl<B: Backend> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).field("handlers", &self.handlers).finish_non_exhaustive()
    }
}
