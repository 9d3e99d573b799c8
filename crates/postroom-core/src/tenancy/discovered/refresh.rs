//! A refresh: it compares the databases that exist with the stores that are open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::store::Store;
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;
use crate::tenancy::stores::{Member, Set};
use crate::tenancy::{Discovery, Refreshed, StoreKey};

/// At most this many stores are opened at once.
const OPENED_AT_ONCE: usize = 8;

/// The open stores, by key.
pub(super) struct Inventory<D: Discovery> {
    discovery: D,
    open_timeout: Duration,
    open: BTreeMap<StoreKey, Opened<D>>,
    publish: watch::Sender<Arc<Set<D::Store>>>,
    closing: JoinSet<()>,
}

struct Opened<D: Discovery> {
    config: D::Config,
    member: Arc<Member<D::Store>>,
    unused: oneshot::Receiver<()>,
}

/// A store to open, once the one it replaces is closed.
struct ToOpen<C> {
    key: StoreKey,
    config: C,
    replaces: Option<oneshot::Receiver<()>>,
}

impl<D: Discovery> Inventory<D> {
    pub(super) fn new(discovery: D, open_timeout: Duration, publish: watch::Sender<Arc<Set<D::Store>>>) -> Self {
        Self { discovery, open_timeout, open: BTreeMap::new(), publish, closing: JoinSet::new() }
    }

    /// Opens new stores and removes those that are gone. If the discovery fails, nothing changes.
    pub(super) async fn refresh(&mut self) -> Result<Refreshed> {
        let found = self.discovery.discover().await.and_then(by_key).inspect_err(telemetry::discovery_failed)?;
        let mut refreshed = Refreshed::default();
        let to_open = self.compare(found, &mut refreshed);
        self.publish();
        self.open_all(to_open, &mut refreshed).await;
        let (added, removed) = (&refreshed.added, &refreshed.removed);
        let (added, removed) = (added.iter().map(StoreKey::as_str), removed.iter().map(StoreKey::as_str));
        telemetry::discovered(added, removed, refreshed.failed.len(), refreshed.kept);
        Ok(refreshed)
    }

    fn compare(&mut self, found: BTreeMap<StoreKey, D::Config>, refreshed: &mut Refreshed) -> Vec<ToOpen<D::Config>> {
        let is_same = |(key, opened): &(StoreKey, Opened<D>)| found.get(key) == Some(&opened.config);
        let (same, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(is_same);
        self.open = same.into_iter().collect();
        refreshed.kept = self.open.len();
        let mut closed = BTreeMap::new();
        for (key, opened) in gone {
            closed.insert(key.clone(), self.let_go(opened));
            refreshed.removed.push(key);
        }
        let new = found.into_iter().filter(|(key, _)| !self.open.contains_key(key));
        new.map(|(key, config)| ToOpen { replaces: closed.remove(&key), key, config }).collect()
    }

    /// Closes a store when it is no longer in use. The result is ready when that has happened.
    fn let_go(&mut self, opened: Opened<D>) -> oneshot::Receiver<()> {
        let (closed, done) = oneshot::channel();
        let Opened { member, unused, .. } = opened;
        let store = member.store.clone();
        self.closing.spawn(async move {
            let _ = unused.await;
            store.close().await;
            telemetry::store_closed(store.name());
            let _ = closed.send(());
        });
        done
    }

    /// A store that cannot be opened, or not in time, does not delay the others.
    async fn open_all(&mut self, to_open: Vec<ToOpen<D::Config>>, refreshed: &mut Refreshed) {
        let Self { discovery, open_timeout, open, publish, .. } = self;
        let opening = to_open.into_iter().map(|to_open| open_one(discovery, *open_timeout, to_open));
        let mut opening = stream::iter(opening).buffer_unordered(OPENED_AT_ONCE);
        while let Some((key, result)) = opening.next().await {
            match result {
                Ok(opened) => {
                    open.insert(key.clone(), opened);
                    publish_all(open, publish);
                    refreshed.added.push(key);
                }
                Err(error) => {
                    telemetry::store_not_opened(key.as_str(), &error);
                    refreshed.failed.push((key, error));
                }
            }
        }
        refreshed.added.sort_unstable();
    }

    fn publish(&self) {
        publish_all(&self.open, &self.publish);
    }

    /// Waits until a removed store is closed. It waits forever if there is none.
    pub(super) async fn closed_one(&mut self) {
        if self.closing.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Removes all stores, and waits until they are closed.
    pub(super) async fn close(mut self) {
        for (_, opened) in std::mem::take(&mut self.open) {
            self.let_go(opened);
        }
        self.publish();
        while self.closing.join_next().await.is_some() {}
    }
}

fn publish_all<D: Discovery>(open: &BTreeMap<StoreKey, Opened<D>>, publish: &watch::Sender<Arc<Set<D::Store>>>) {
    let members = open.values().map(|opened| opened.member.clone()).collect();
    // A map has no key twice.
    if let Ok(set) = Set::new(members) {
        publish.send_replace(Arc::new(set));
    }
}

async fn open_one<D: Discovery>(
    discovery: &D,
    limit: Duration,
    to_open: ToOpen<D::Config>,
) -> (StoreKey, Result<Opened<D>>) {
    let ToOpen { key, config, replaces } = to_open;
    if let Some(closed) = replaces {
        // After this time it is opened, even if the old one is still open.
        let _ = timeout(limit, closed).await;
    }
    let opening = async {
        let store = discovery.open(&key, &config).await?;
        if store.name() != key.as_str() {
            let (wanted, name) = (key.shown(), StoreKey::from(store.name()).shown());
            let message =
                format!("the store that was opened for {wanted} has the name {name}; its name must be its key");
            return Err(Error::invalid(message));
        }
        let (member, unused) = Member::new(store);
        Ok(Opened { config, member, unused })
    };
    let opened = timeout(limit, opening).await;
    let opened = opened.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unavailable, format!("the store could not be opened within {limit:?}")))
    });
    (key, opened)
}

/// Refuses two databases with the same key, because nobody could tell which one a message belongs to.
fn by_key<C>(found: Vec<(StoreKey, C)>) -> Result<BTreeMap<StoreKey, C>> {
    let mut configs = BTreeMap::new();
    for (key, config) in found {
        let key = key.checked()?;
        if configs.contains_key(&key) {
            return Err(Error::invalid(format!("two databases were discovered as {}", key.shown())));
        }
        configs.insert(key, config);
    }
    Ok(configs)
}
