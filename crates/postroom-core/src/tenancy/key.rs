//! The key of a store.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::support::error::{Error, Result};

/// The key of a store: its name, usually the tenant's. A UUID and its usual text are the same key.
///
/// ```
/// use postroom::tenancy::StoreKey;
///
/// let id = uuid::Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
/// assert_eq!(StoreKey::from(id), StoreKey::from("67e55044-10b1-426f-9247-bb680e5fe0c8"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(Arc<str>);

/// At most this much of a key is shown in an error.
const SHOWN_CHARS: usize = 64;

impl StoreKey {
    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An empty key is more likely a mistake than a tenant.
    pub(super) fn checked(self) -> Result<Self> {
        if self.0.is_empty() {
            return Err(Error::invalid("the key of a store must not be empty; use a name or a UUID"));
        }
        Ok(self)
    }

    /// Quotes the key, cut to a readable length.
    pub(super) fn shown(&self) -> String {
        match self.0.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{:?}…", &self.0[..end]),
            None => format!("{:?}", &*self.0),
        }
    }
}

impl From<&str> for StoreKey {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl From<String> for StoreKey {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

impl From<Uuid> for StoreKey {
    fn from(key: Uuid) -> Self {
        Self(key.to_string().into())
    }
}

impl From<&Self> for StoreKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
