//! The stores, each with its own name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{oneshot, watch};

use crate::mailbox::inbox::Inbox;
use crate::mailbox::outbox::Outbox;
use crate::store::Store;
use crate::support::error::{Error, ErrorKind, Result};
use crate::tenancy::StoreKey;

/// At most this many names are listed in an error.
const KNOWN_SHOWN: usize = 5;

/// Provides the stores: a fixed list ([`Stores::fixed`]), or what a discovery finds
/// ([`Discovered`](crate::Discovered)).
///
/// ```
/// use postroom::store::MemoryStore;
/// use postroom::tenancy::{Router, StoreProvider, Stores};
///
/// // This works with a fixed list and with discovered stores.
/// fn router<P: StoreProvider>(provider: &P) -> Router<P::Store> {
///     Router::new(provider)
/// }
///
/// let stores = Stores::fixed([MemoryStore::new().named("acme")])?;
/// assert!(router(&stores).outbox("acme").is_ok());
/// # Ok::<(), postroom::Error>(())
/// ```
pub trait StoreProvider {
    /// The type of the stores.
    type Store: Store + Clone;

    /// Returns the stores. The result changes as stores come and go.
    fn stores(&self) -> Stores<Self::Store>;
}

/// A set of stores. A store is identified by its name, and no two share one. It is cheap to clone, and all clones see
/// the same changes.
///
/// ```
/// use postroom::store::MemoryStore;
/// use postroom::tenancy::Stores;
///
/// let stores = Stores::fixed(["acme", "globex"].map(|name| MemoryStore::new().named(name)))?;
/// assert_eq!(stores.keys(), ["acme".into(), "globex".into()]);
/// assert!(Stores::fixed([MemoryStore::new(), MemoryStore::new()]).is_err(), "both are called \"memory\"");
/// # Ok::<(), postroom::Error>(())
/// ```
pub struct Stores<S> {
    current: watch::Receiver<Arc<Set<S>>>,
}

/// The stores at one moment, in order.
pub(super) struct Set<S> {
    members: Vec<Arc<Member<S>>>,
    by_key: HashMap<StoreKey, usize>,
}

/// A store with its outbox and inbox. The store is in use while anybody holds this.
pub(super) struct Member<S> {
    pub(super) id: u64,
    pub(super) key: StoreKey,
    pub(super) store: S,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    /// It is dropped with the last user of the store.
    _in_use: oneshot::Sender<()>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl<S: Store + Clone> Member<S> {
    /// Creates a member, and a receiver that is notified when the member is no longer in use.
    pub(super) fn new(store: S) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (in_use, unused) = oneshot::channel();
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let member = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            key: StoreKey::from(store.name()),
            store,
            outbox: Outbox::of(shared.clone()),
            inbox: Inbox::of(shared),
            _in_use: in_use,
        };
        (Arc::new(member), unused)
    }
}

impl<S> Set<S> {
    /// Refuses two stores with the same name.
    pub(super) fn new(members: Vec<Arc<Member<S>>>) -> Result<Self> {
        let mut by_key = HashMap::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            let key = member.key.clone().checked()?;
            if by_key.insert(key.clone(), index).is_some() {
                let name = key.shown();
                return Err(Error::invalid(format!("two stores have the name {name}; each store needs its own")));
            }
        }
        Ok(Self { members, by_key })
    }

    pub(super) fn members(&self) -> &[Arc<Member<S>>] {
        &self.members
    }

    fn get(&self, key: StoreKey) -> Result<&Arc<Member<S>>> {
        let key = key.checked()?;
        let index = self.by_key.get(&key).ok_or_else(|| self.unknown(&key))?;
        Ok(&self.members[*index])
    }

    fn unknown(&self, key: &StoreKey) -> Error {
        let shown: Vec<String> = self.members.iter().take(KNOWN_SHOWN).map(|member| member.key.shown()).collect();
        let known = match (shown.join(", "), self.members.len().saturating_sub(KNOWN_SHOWN)) {
            (none, _) if none.is_empty() => "there are no stores".to_owned(),
            (all, 0) => format!("the stores are {all}"),
            (some, more) => format!("the stores are {some} and {more} more"),
        };
        Error::new(ErrorKind::UnknownStore, format!("there is no store {}; {known}", key.shown()))
    }
}

impl<S: Store + Clone> Stores<S> {
    /// Creates a set of exactly these stores, in this order. Each needs its own name.
    pub fn fixed(stores: impl IntoIterator<Item = S>) -> Result<Self> {
        let members = stores.into_iter().map(|store| Member::new(store).0).collect();
        let (_, current) = watch::channel(Arc::new(Set::new(members)?));
        Ok(Self { current })
    }

    /// Returns the store with this name.
    pub fn get(&self, key: impl Into<StoreKey>) -> Result<S> {
        Ok(self.member(key.into())?.store.clone())
    }
}

impl<S> Stores<S> {
    pub(super) fn of(current: watch::Receiver<Arc<Set<S>>>) -> Self {
        Self { current }
    }

    /// Returns the names of the stores, in order.
    pub fn keys(&self) -> Vec<StoreKey> {
        self.current.borrow().members.iter().map(|member| member.key.clone()).collect()
    }

    /// Returns the number of stores.
    pub fn len(&self) -> usize {
        self.current.borrow().members.len()
    }

    /// Returns whether there are no stores.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until stores are added or removed.
    pub async fn changed(&mut self) {
        if self.current.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn member(&self, key: StoreKey) -> Result<Arc<Member<S>>> {
        self.current.borrow().get(key).cloned()
    }

    pub(super) fn look(&mut self) -> Arc<Set<S>> {
        self.current.borrow_and_update().clone()
    }
}

impl<S: Store + Clone> StoreProvider for Stores<S> {
    type Store = S;

    fn stores(&self) -> Self {
        self.clone()
    }
}

impl<S> Clone for Stores<S> {
    fn clone(&self) -> Self {
        Self { current: self.current.clone() }
    }
}

impl<S> fmt::Debug for Stores<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stores").field(&self.keys()).finish()
    }
}
