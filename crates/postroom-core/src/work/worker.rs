//! The worker: wait, claim, process, settle. It knows neither SQL nor wires; a `Process` decides what happens with a
//! message.

mod claims;
mod flight;
mod gate;
mod holds;
mod looks;
mod maintenance;
mod options;
mod probe;
mod retention;
mod run_loop;
mod settling;
mod shares;
mod unchanged;

pub(crate) use gate::Gate;
pub use options::WorkerOptions;
#[cfg(feature = "testing")]
pub use probe::{Point, Probe};
pub use retention::Retention;
pub(crate) use run_loop::Loop;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::Queue;
use crate::support::error::Result;
use crate::work::batch::{Process, Slots};
use crate::work::delivery::Transport;
use crate::work::dispatcher::Dispatcher;
use crate::work::handler::{Backend, Handlers, Runner};
use crate::work::places::Places;

/// A worker on one queue of one store.
///
/// ```no_run
/// # use postroom::{Handlers, Worker};
/// # use postroom::sqlite::{Sqlite, SqliteStore};
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
    places: Places,
    options: WorkerOptions,
}

impl<B: Backend> Worker<B> {
    /// Creates a worker that handles the messages of the outbox that have no destination.
    pub fn outbox(store: B::Store, handlers: Handlers<B>) -> Self {
        Self::new(store, Queue::Outbox, handlers)
    }

    /// Creates a worker that handles the messages of the inbox.
    pub fn inbox(store: B::Store, handlers: Handlers<B>) -> Self {
        Self::new(store, Queue::Inbox, handlers)
    }

    fn new(store: B::Store, queue: Queue, handlers: Handlers<B>) -> Self {
        let (places, options) = (Places::default(), WorkerOptions::default());
        Self { store, queue, handlers, transport: None, places, options }
    }

    crate::setters! {
        /// Sends outbox messages that have a destination through this transport.
        pub fn transport(mut self, transport: impl Transport) { self.transport = Some(Arc::new(transport)); }

        /// Shares the state of places with other workers, and makes it visible.
        pub fn places(mut self, places: Places) { self.places = places; }

        /// Sets the options.
        pub fn options(mut self, options: WorkerOptions) { self.options = options; }
    }

    /// Runs until `shutdown` is ready. Then it finishes what is in progress within the grace time, and releases the
    /// rest.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let handlers = self.handlers.checked()?;
        let mut options = self.options.checked()?;
        options.policies = handlers.tuning.applied(&options.policies);
        let filling = Filling::new(Arc::new(handlers), self.transport, self.places, &options);
        let process = filling.process(&self.store, self.queue);
        let queue = WorkQueue::new(Arc::new(self.store), self.queue);
        Loop::new(queue, process, Arc::new(options), filling.places, None).run(shutdown).await
    }
}

/// The processing of messages, which is the same for every store of a fleet.
pub(crate) struct Filling<B: Backend> {
    handlers: Arc<Handlers<B>>,
    transport: Option<Arc<dyn Transport>>,
    pub(crate) places: Places,
    handling: Slots,
    sending: Slots,
}

/// For each handler that may run, this many messages may be on their way to other services, because they mostly wait.
const SENDS_PER_HANDLER: usize = 4;

impl<B: Backend> Filling<B> {
    pub(crate) fn new(
        handlers: Arc<Handlers<B>>,
        transport: Option<Arc<dyn Transport>>,
        places: Places,
        options: &WorkerOptions,
    ) -> Self {
        let slots = |slots: usize, places| Slots {
            all: Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS))),
            most: slots,
            share: options.share(slots, places),
            limits: options.handler_limits,
            endpoints: options.endpoints.clone(),
        };
        let sends = options.concurrency.saturating_mul(SENDS_PER_HANDLER);
        let (handling, sending) = (slots(options.concurrency, handlers.topics()), slots(sends, None));
        Self { handlers, transport, places, handling, sending }
    }

    /// Both together run no more handlers than one of them may.
    pub(crate) fn share_slots_of(&mut self, other: &Self) {
        self.handling.all = other.handling.all.clone();
        self.sending.all = other.sending.all.clone();
    }

    pub(crate) fn process(&self, store: &B::Store, queue: Queue) -> Arc<dyn Process> {
        let (handlers, places) = (self.handlers.clone(), self.places.clone());
        let runner = Runner::<B>::new(store.clone(), queue, handlers, places.clone(), self.handling.clone());
        match queue {
            Queue::Inbox => Arc::new(runner),
            Queue::Outbox => {
                let (transport, slots) = (self.transport.clone(), self.sending.clone());
                Arc::new(Dispatcher::new(store, Arc::new(runner), transport, places, slots))
            }
        }
    }
}

impl<B: Backend> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).field("handlers", &self.handlers).finish_non_exhaustive()
    }
}
