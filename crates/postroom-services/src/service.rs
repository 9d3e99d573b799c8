//! A service as `service!` declares it (what it handles, whom it trusts, where it sends), and the running service.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::receiver::{Receiver, ReceiverOptions, Source};
use crate::transport::{Courier, Neighbours, Service, Services};
#[cfg(feature = "http")]
use crate::transport::{ListenOptions, Listener};
use postroom_core::mailbox::outbox::Outbox;
use postroom_core::store::Store;
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::telemetry;
use postroom_core::work::handler::{Backend, Handlers};
use postroom_core::work::worker::{Worker, WorkerOptions};

/// The inbox must recognise a message for this much longer than the receiver accepts it.
const RETENTION_MARGIN: Duration = Duration::from_secs(600);

/// A service that `service!` declared.
///
/// ```
/// use postroom::{Ctx, Event, HandlerError, service};
/// use postroom::services::Declared;
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// pub struct OrderPlaced { order: u64 }
///
/// async fn reserve(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// service! {
///     pub struct Inventory for "inventory" on Memory;
///     handle OrderPlaced => reserve;
/// }
///
/// assert_eq!(Inventory::NAME, "inventory");
/// assert!(Inventory::sources()?.is_empty(), "it accepts messages from nobody else");
/// # Ok::<(), postroom::Error>(())
/// ```
pub trait Declared: Sized {
    /// The database that the service runs on.
    type Backend: Backend;
    /// The name of the service.
    const NAME: &'static str;
    /// Returns the handlers for everything the service receives.
    fn handlers() -> Handlers<Self::Backend>;
    /// Returns the services whose messages it accepts, with their keys.
    fn sources() -> Result<Vec<Source>>;
    /// Returns the services it sends to, with their keys.
    fn destinations() -> Result<Vec<Service>>;
    /// Returns the addresses it listens on.
    fn addresses() -> Result<Vec<String>>;
    #[doc(hidden)]
    fn started(running: RunningService<Self::Backend>) -> Self;
}

/// A declared service that is not started yet. Set its options here, and the values that its handlers need.
///
/// ```
/// # use postroom::{Ctx, Event, HandlerError, WorkerOptions, service};
/// # use postroom::store::{Memory, MemoryStore};
/// # #[derive(serde::Serialize, serde::Deserialize, Event)]
/// # #[event("order.placed")]
/// # pub struct OrderPlaced { order: u64 }
/// # async fn reserve(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
/// service! {
///     pub struct Inventory for "inventory" on Memory;
///     handle OrderPlaced => reserve;
/// }
///
/// struct Shelves(u64);
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let declared = Inventory::on(MemoryStore::new()).state(Shelves(10)).worker(WorkerOptions::default().concurrency(4));
/// let inventory = declared.start().await?;
/// inventory.stop().await?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[must_use = "it does not run before it is started"]
pub struct ServiceBuilder<D: Declared> {
    store: <D::Backend as Backend>::Store,
    handlers: Handlers<D::Backend>,
    worker: WorkerOptions,
    receiver: ReceiverOptions,
    neighbours: Neighbours,
    #[cfg(feature = "http")]
    listen: ListenOptions,
    service: PhantomData<fn() -> D>,
}

impl<D: Declared> ServiceBuilder<D> {
    /// Declares the service `D` on this store.
    pub fn new(store: <D::Backend as Backend>::Store) -> Self {
        Self {
            store,
            handlers: D::handlers(),
            worker: WorkerOptions::default(),
            receiver: ReceiverOptions::default(),
            neighbours: Neighbours::default(),
            #[cfg(feature = "http")]
            listen: ListenOptions::default(),
            service: PhantomData,
        }
    }

    /// Adds a value that every handler can get from its context.
    pub fn state<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.handlers(|handlers| handlers.state(value))
    }

    postroom_core::setters! {
        /// Adds handlers to those that are declared.
        pub fn handlers(mut self, more: impl FnOnce(Handlers<D::Backend>) -> Handlers<D::Backend>) {
            self.handlers = more(self.handlers);
        }

        /// Sets the options of its workers.
        pub fn worker(mut self, options: WorkerOptions) { self.worker = options; }

        /// Sets the options of its receiver.
        pub fn receiver(mut self, options: ReceiverOptions) { self.receiver = options; }

        /// Sets the options of its listeners.
        #[cfg(feature = "http")]
        pub fn listen(mut self, options: ListenOptions) { self.listen = options; }

        /// Sets the services in the same process, which are reached by the address `in-process`.
        pub fn neighbours(mut self, neighbours: Neighbours) { self.neighbours = neighbours; }
    }

    /// Starts listening, handling and sending. The service runs until it is [stopped](RunningService::stop) or dropped.
    pub async fn start(self) -> Result<D> {
        let (handlers, options) = (self.handlers.checked()?, self.worker.checked()?);
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let receiver = Receiver::with(D::NAME, self.store.clone(), handlers.shared(), D::sources()?, self.receiver)?;
        remembers(&receiver, &options)?;
        let services = Services::new(D::NAME).clock(self.store.clock().clone());
        let services = D::destinations()?.into_iter().fold(services, Services::service);
        let courier = Courier::with_neighbours(services, self.neighbours.clone())?;
        #[cfg_attr(not(feature = "http"), expect(unused_mut, reason = "there are no listeners"))]
        let mut addresses = Vec::new();
        #[cfg(feature = "http")]
        for address in D::addresses()? {
            let listener = Listener::bind(&address, self.listen.clone()).await?;
            addresses.extend(listener.tcp_address());
            let (receiver, ending) = (receiver.clone(), stop.clone().cancelled_owned());
            tasks.spawn(part(&stop, async move {
                receiver.serve(listener, ending).await;
                Ok(())
            }));
        }
        let outbox = Worker::<D::Backend>::outbox(self.store.clone(), handlers.shared()).transport(courier);
        let inbox = Worker::<D::Backend>::inbox(self.store.clone(), handlers);
        for worker in [outbox, inbox] {
            tasks.spawn(part(&stop, worker.options(options.clone()).run(stop.clone().cancelled_owned())));
        }
        self.neighbours.add(receiver.clone());
        let outbox = Outbox::new(self.store.clone());
        let neighbours = self.neighbours;
        Ok(D::started(RunningService { store: self.store, outbox, receiver, addresses, neighbours, stop, tasks }))
    }
}

/// Checks that the inbox still recognises every message that the receiver still accepts.
fn remembers<B: Backend>(receiver: &Receiver<B>, options: &WorkerOptions) -> Result<()> {
    let (window, kept) = (receiver.longest_window(), options.retention.known_for());
    if window + RETENTION_MARGIN <= kept {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the inbox keeps messages for {kept:?}, but the receiver accepts them for {window:?}: a message could be \
         handled twice. The retention must be at least ten minutes longer than the window"
    )))
}

/// Runs one part of the service. When one part ends, the whole service ends.
fn part(
    stop: &CancellationToken,
    work: impl Future<Output = Result<()>> + Send + 'static,
) -> impl Future<Output = Result<()>> + Send + 'static {
    let (stop, all) = (stop.clone(), stop.clone().drop_guard());
    async move {
        let ended = work.await;
        if let (Err(error), false) = (&ended, stop.is_cancelled()) {
            telemetry::service_failed(error);
        }
        drop(all);
        ended
    }
}

impl<D: Declared> fmt::Debug for ServiceBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder")
            .field("service", &D::NAME)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// A declared service that is running. If it is dropped, it stops in the background.
///
/// ```
/// # use postroom::{Ctx, Event, HandlerError, Payload, service};
/// # use postroom::store::{Memory, MemoryStore};
/// # #[derive(serde::Serialize, serde::Deserialize, Event)]
/// # #[event("order.placed")]
/// # pub struct OrderPlaced { order: u64 }
/// # async fn reserve(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
/// # service! {
/// #     pub struct Inventory for "inventory" on Memory;
/// #     handle OrderPlaced => reserve;
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let inventory = Inventory::start(MemoryStore::new()).await?;
/// inventory.outbox().enqueue(OrderPlaced { order: 7 }.outgoing()).await?;
/// assert!(inventory.tcp_addresses().is_empty(), "it listens nowhere");
/// inventory.stop().await?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub struct RunningService<B: Backend> {
    store: B::Store,
    outbox: Outbox,
    receiver: Receiver<B>,
    addresses: Vec<SocketAddr>,
    neighbours: Neighbours,
    stop: CancellationToken,
    tasks: JoinSet<Result<()>>,
}

impl<B: Backend> RunningService<B> {
    /// Returns the store that the service runs on.
    pub fn store(&self) -> &B::Store {
        &self.store
    }

    /// Returns its outbox.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns the TCP addresses it listens on. A port 0 in the declaration appears here as the real port.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns its receiver, to mount it in an existing web server.
    pub fn receiver(&self) -> &Receiver<B> {
        &self.receiver
    }

    /// Runs until `shutdown` is ready, then stops. An error also ends it.
    pub async fn until(mut self, shutdown: impl Future<Output = ()>) -> Result<()> {
        tokio::select! {
            () = shutdown => self.stop().await,
            ended = first_to_end(&mut self.tasks) => ended.and(self.stop().await),
        }
    }

    /// Stops the service: it accepts nothing new, finishes what is in progress and releases the rest. Handlers have
    /// the workers' grace time to finish, and answers have 30 s.
    pub async fn stop(mut self) -> Result<()> {
        self.neighbours.leave(&self.receiver);
        self.stop.cancel();
        let mut outcome = Ok(());
        while !self.tasks.is_empty() {
            outcome = outcome.and(first_to_end(&mut self.tasks).await);
        }
        outcome
    }
}

impl<B: Backend> Drop for RunningService<B> {
    fn drop(&mut self) {
        self.neighbours.leave(&self.receiver);
        self.stop.cancel();
        // The tasks finish what is in progress.
        self.tasks.detach_all();
    }
}

async fn first_to_end(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    match tasks.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(broken)) => Err(Error::new(ErrorKind::Closed, "a part of the service failed").caused_by(broken)),
        None => Ok(()),
    }
}

impl<B: Backend> fmt::Debug for RunningService<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningService").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}
