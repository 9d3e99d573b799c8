//! Keys: a secret with an id. Two services can share several keys, so that they can change them while messages
//! travel.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::wire::algorithm::HmacAlgorithm;
use crate::wire::grammar;
use crate::wire::secret::{Secret, Subkey};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

/// A secret, with the id that signatures name.
///
/// ```
/// use postroom::clock::Timestamp;
/// use postroom::services::{Key, Secret};
///
/// let until: Timestamp = "2027-01-01T00:00:00Z".parse()?;
/// let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?.not_after(until);
/// assert_eq!(key.id(), "2026-11");
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone)]
pub struct Key {
    pub(crate) material: Arc<Material>,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
}

/// The parts of a key. Its clones share them, because each message needs some.
pub(crate) struct Material {
    id: String,
    secret: Secret,
    algorithm: HmacAlgorithm,
    pub(crate) request: Subkey,
    pub(crate) receipt: Subkey,
}

impl Material {
    fn new(id: String, secret: Secret, algorithm: HmacAlgorithm) -> Self {
        let subkey = |purpose| secret.subkey(algorithm, purpose);
        let (request, receipt) = (subkey("postroom v2 request"), subkey("postroom v2 receipt"));
        Self { id, secret, algorithm, request, receipt }
    }
}

impl Key {
    /// Creates a key. Its id is public and appears in every signature.
    pub fn new(id: impl Into<String>, secret: Secret) -> Result<Self> {
        let id = id.into();
        grammar::key_id(&id)?;
        let material = Arc::new(Material::new(id, secret, HmacAlgorithm::default()));
        Ok(Self { material, not_before: None, not_after: None })
    }

    /// Sets the only algorithm that this key signs and verifies with; [`HmacAlgorithm::Sha256`] by default. Both
    /// sides must set the same one.
    #[must_use]
    pub fn algorithm(mut self, algorithm: HmacAlgorithm) -> Self {
        let Material { id, secret, .. } = &*self.material;
        self.material = Arc::new(Material::new(id.clone(), secret.clone(), algorithm));
        self
    }

    /// Creates a key with the secret in this environment variable.
    pub fn from_env(id: impl Into<String>, variable: &str) -> Result<Self> {
        Self::new(id, Secret::from_env(variable)?)
    }

    /// Creates a key with the secret in this file.
    pub fn from_file(id: impl Into<String>, path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::new(id, Secret::from_file(path)?)
    }

    postroom_core::setters! {
        /// Sets the time before which the key neither signs nor verifies.
        pub fn not_before(mut self, time: Timestamp) { self.not_before = Some(time); }

        /// Sets the time after which the key neither signs nor verifies.
        pub fn not_after(mut self, time: Timestamp) { self.not_after = Some(time); }
    }

    /// Returns the id that signatures name.
    pub fn id(&self) -> &str {
        &self.material.id
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.material.secret
    }

    pub(crate) fn hmac_algorithm(&self) -> HmacAlgorithm {
        self.material.algorithm
    }

    fn is_active(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= now) && self.not_after.is_none_or(|until| now <= until)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id()).field("algorithm", &self.hmac_algorithm()).finish_non_exhaustive()
    }
}

/// The keys that two services share now. Clones share them, so [`replace`](Self::replace) changes them for all
/// clones.
///
/// To change a key without a pause, give the new key to the receiver first, then to the sender. Once nothing signed
/// with the old key is still travelling, remove it in the same order. A sender signs with all of its keys.
///
/// ```
/// use postroom::services::{Key, Keys, Secret, Source};
///
/// let key = |id: &str| Key::new(id, Secret::parse(&Secret::generate())?);
/// let old = key("2026-10")?;
/// let keys = Keys::from(old.clone());
/// let orders = Source::new("orders", keys.clone());
/// // Later, while messages of `orders` come in, add the new key.
/// keys.replace([key("2026-11")?, old])?;
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<RwLock<Arc<Vec<Key>>>>);

impl Keys {
    /// Creates a set of keys, newest first. No two keys may have the same id.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Result<Self> {
        let ring = Self::default();
        ring.replace(keys)?;
        Ok(ring)
    }

    /// Replaces all keys.
    pub fn replace(&self, keys: impl IntoIterator<Item = Key>) -> Result<()> {
        let keys: Vec<Key> = keys.into_iter().collect();
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].iter().any(|other| other.id() == key.id()) {
                return Err(Error::invalid(format!("two keys have the id {:?}", key.id())));
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(())
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.current().is_empty()
    }

    fn current(&self) -> Arc<Vec<Key>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether both sets contain the same secret.
    pub(crate) fn shares_a_secret(&self, other: &Self) -> bool {
        let other = other.current();
        self.current().iter().any(|key| other.iter().any(|other| key.secret() == other.secret()))
    }

    /// Returns the keys that are valid now.
    pub(crate) fn active(&self, now: Timestamp) -> Vec<Key> {
        self.current().iter().filter(|key| key.is_active(now)).cloned().collect()
    }
}

impl From<Key> for Keys {
    fn from(key: Key) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(vec![key]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key::new(id, Secret::parse("an example secret, long enough to be one").unwrap()).unwrap()
    }

    #[test]
    fn clones_see_the_new_keys_at_once() {
        let keys = Keys::from(key("old"));
        let clone = keys.clone();
        keys.replace([key("new"), key("old")]).unwrap();
        let now = Timestamp::from_micros(0);
        let ids: Vec<String> = clone.active(now).iter().map(|key| key.id().to_owned()).collect();
        assert_eq!(ids, ["new", "old"]);
        assert!(keys.replace([key("a"), key("a")]).is_err());
    }

    #[test]
    fn a_key_is_used_only_in_its_time() {
        let at = Timestamp::from_micros;
        let keys = Keys::from(key("a").not_before(at(10)).not_after(at(20)));
        let active: Vec<bool> = [9, 10, 20, 21].map(|time| !keys.active(at(time)).is_empty()).into();
        assert_eq!(active, [false, true, true, false]);
    }
}
