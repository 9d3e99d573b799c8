//! Hashes of content, to notice the same id with other content.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The SHA-256 of these bytes, to store beside a message.
pub fn hash_bytes(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The SHA-256 of a value's JSON, to store beside a message.
pub fn hash_value<T: Serialize + ?Sized>(value: &T) -> Result<[u8; 32]> {
    let json = serde_json::to_vec(value)
        .map_err(|source| Error::invalid(format!("the value cannot be hashed: {source}")).caused_by(source))?;
    Ok(hash_bytes(json))
}
