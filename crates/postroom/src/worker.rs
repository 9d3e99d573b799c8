//! The only loop: wait, claim, process, settle. It knows neither SQL nor wires; what to do with a message is the
//! business of its filling ([`Process`]).

mod flight;
mod options;
mod outcome;
mod run;
mod turn;

pub use options::WorkerOptions;
pub(crate) use outcome::Outcome;
#[cfg(feature = "testing")]
pub use run::{Point, Probe};
pub(crate) use run::{Process, Run};

use std::fmt;
use std::future::Future;
use std::sync::Arc;

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
        let runner = Runner::<B>::new(self.store.clone(), self.queue, self.handlers.checked()?, options.concurrency);
        let runner: Arc<dyn Process> = Arc::new(runner);
        let process: Arc<dyn Process> = match self.queue {
            Queue::Inbox => runner,
            Queue::Outbox => Arc::new(Dispatcher::new(&self.store, runner, self.transport, options.concurrency)),
        };
        let queue = WorkQueue::new(Arc::new(self.store), self.queue);
        turn::Loop::new(queue, process, options).run(shutdown).await
    }
}

impl<B: Backend> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).field("handlers", &self.handlers).finish_non_exhaustive()
    }
}
