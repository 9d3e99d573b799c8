//! Stores that come and go: a discovery lists them, new ones are opened, and those that are gone are drained and
//! closed.

mod refresh;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::tenancy::stores::{Set, StoreProvider, Stores};
use crate::tenancy::{Discovery, DiscoveryOptions, Refreshed};
use refresh::Inventory;

/// The stores that a [`Discovery`] finds, kept up to date.
///
/// ```no_run
/// # use postroom::Handlers;
/// # use postroom::sqlite::{Sqlite, SqliteStore};
/// # use postroom::tenancy::{Discovered, Discovery, DiscoveryOptions, Fleet, Router};
/// # async fn f<D: Discovery<Store = SqliteStore>>(folder: D, handlers: Handlers<Sqlite>) -> postroom::Result<()> {
/// let tenants = Discovered::start(folder, DiscoveryOptions::default()).await?;
/// let router = Router::new(&tenants);
/// let shutdown = async { tokio::signal::ctrl_c().await.ok(); };
/// Fleet::new(&tenants).outbox(handlers).run(shutdown).await?;
/// tenants.close().await;
/// # Ok(()) }
/// ```
pub struct Discovered<D: Discovery> {
    current: watch::Receiver<Arc<Set<D::Store>>>,
    requests: mpsc::Sender<Request>,
    /// The task that refreshes the stores. It ends when this is dropped.
    task: JoinSet<()>,
}

enum Request {
    Refresh(oneshot::Sender<Result<Refreshed>>),
    Close(oneshot::Sender<()>),
}

impl<D: Discovery> Discovered<D> {
    /// Discovers for the first time, opens what it finds, and repeats this at the refresh interval. It fails if the
    /// discovery itself fails; stores that cannot be opened are left for the next refresh.
    pub async fn start(discovery: D, options: DiscoveryOptions) -> Result<Self> {
        let options = options.checked()?;
        let (publish, current) = watch::channel(Arc::new(Set::new(Vec::new())?));
        let mut inventory = Inventory::new(discovery, options.open_timeout, publish);
        inventory.refresh().await?;
        let (requests, incoming) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(keep_up_to_date(inventory, options.refresh, incoming));
        Ok(Self { current, requests, task })
    }

    /// Discovers now, and returns the changes.
    pub async fn refresh(&self) -> Result<Refreshed> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Refresh(reply)).await;
        match answer.await {
            Ok(refreshed) if sent.is_ok() => refreshed,
            _ => Err(Error::new(ErrorKind::Closed, "the discovery has ended; the log has the reason")),
        }
    }

    /// Ends the discovery, and closes every store when no worker uses it any more. Stop the fleet first.
    pub async fn close(mut self) {
        let (reply, done) = oneshot::channel();
        if self.requests.send(Request::Close(reply)).await.is_ok() {
            let _ = done.await;
        }
        self.task.shutdown().await;
    }
}

async fn keep_up_to_date<D: Discovery>(
    mut inventory: Inventory<D>,
    interval: Duration,
    mut requests: mpsc::Receiver<Request>,
) {
    let mut ticks = interval_at(Instant::from_std(monotonic()) + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let request = tokio::select! {
            _ = ticks.tick() => None,
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = inventory.closed_one() => continue,
        };
        match request {
            // The failure has been logged, and everything stays as it was.
            None => drop(inventory.refresh().await),
            Some(Request::Refresh(reply)) => drop(reply.send(inventory.refresh().await)),
            Some(Request::Close(reply)) => {
                inventory.close().await;
                let _ = reply.send(());
                return;
            }
        }
    }
}

impl<D: Discovery> StoreProvider for Discovered<D> {
    type Store = D::Store;

    fn stores(&self) -> Stores<D::Store> {
        Stores::of(self.current.clone())
    }
}

impl<D: Discovery> fmt::Debug for Discovered<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Discovered").field(&Stores::of(self.current.clone())).finish()
    }
}
