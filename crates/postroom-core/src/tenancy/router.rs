//! Finds a tenant's outbox and inbox by its key.

use crate::mailbox::inbox::Inbox;
use crate::mailbox::outbox::Outbox;
use crate::store::Store;
use crate::support::error::Result;
use crate::tenancy::{StoreKey, StoreProvider, Stores};

/// Finds the outbox and the inbox for a key: a store's name, as text or as a UUID. It is cheap to clone.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use postroom::{ErrorKind, NewMessage};
/// use postroom::store::MemoryStore;
/// use postroom::tenancy::{Router, Stores};
///
/// let stores = Stores::fixed(["acme", "globex"].map(|name| MemoryStore::new().named(name)))?;
/// let router = Router::new(&stores);
/// router.outbox("acme")?.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// assert_eq!(router.outbox("globex")?.queue().stats().await?.ready, 0);
///
/// let refused = router.outbox("initech").unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::UnknownStore);
/// assert_eq!(refused.to_string(), r#"there is no store "initech"; the stores are "acme", "globex""#);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Router<S> {
    stores: Stores<S>,
}

impl<S: Store + Clone> Router<S> {
    /// Creates a router to the stores of `provider`, including those that are added later.
    pub fn new(provider: &impl StoreProvider<Store = S>) -> Self {
        Self { stores: provider.stores() }
    }

    /// Returns the outbox of the store with this name. It is always the same one while the store exists.
    pub fn outbox(&self, key: impl Into<StoreKey>) -> Result<Outbox> {
        Ok(self.stores.member(key.into())?.outbox.clone())
    }

    /// Returns the inbox of the store with this name. It is always the same one while the store exists.
    pub fn inbox(&self, key: impl Into<StoreKey>) -> Result<Inbox> {
        Ok(self.stores.member(key.into())?.inbox.clone())
    }

    /// Returns the store with this name, to write to it in a transaction.
    pub fn store(&self, key: impl Into<StoreKey>) -> Result<S> {
        self.stores.get(key)
    }
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        Self { stores: self.stores.clone() }
    }
}
