//! Hashes of content, to notice the same id with other content.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The SHA-256 of these bytes, to store beside a message.
///
/// ```
/// use postroom::{Inbox, InboxKey, MemoryStore, hash_bytes};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (inbox, key) = (Inbox::new(MemoryStore::new()), InboxKey::new("stripe", "evt_1")?);
/// let body = br#"{"amount":100}"#;
/// assert!(!inbox.already_processed_hash(&key, Some(hash_bytes(body))).await?);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub fn hash_bytes(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The SHA-256 of a value's JSON, to store beside a message.
///
/// ```
/// use postroom::{hash_bytes, hash_value};
///
/// #[derive(serde::Serialize)]
/// struct Payment { amount: u64 }
///
/// assert_eq!(hash_value(&Payment { amount: 100 })?, hash_bytes(r#"{"amount":100}"#));
/// # Ok::<(), postroom::Error>(())
/// ```
pub fn hash_value<T: Serialize + ?Sized>(value: &T) -> Result<[u8; 32]> {
    let json = serde_json::to_vec(value)
        .map_err(|source| Error::invalid(format!("the value cannot be hashed: {source}")).caused_by(source))?;
    Ok(hash_bytes(json))
}
