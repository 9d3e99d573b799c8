//! Hashes of content, to notice the same id with different content.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::support::error::{Error, Result};

/// Computes the SHA-256 of these bytes, to store beside a message.
///
/// ```
/// use postroom::{Inbox, InboxKey};
/// use postroom::message::hash_bytes;
/// use postroom::store::MemoryStore;
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

/// Computes the SHA-256 of a value's JSON, to store beside a message.
///
/// ```
/// use postroom::message::{hash_bytes, hash_value};
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

/// Computes the digest of a list of pieces.
pub fn digest_pieces<'a>(list: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut digest = Sha256::new();
    encode_pieces(&list.into_iter().collect::<Vec<_>>(), |bytes| digest.update(bytes));
    digest.finalize().into()
}

/// Encodes the number of pieces, then each piece after its length, so that no two lists look the same.
pub fn encode_pieces(pieces: &[&[u8]], mut write: impl FnMut(&[u8])) {
    write(&(pieces.len() as u64).to_le_bytes());
    for piece in pieces {
        write(&(piece.len() as u64).to_le_bytes());
        write(piece);
    }
}

/// The hash of a message's content, and its algorithm. Only hashes of the same algorithm can be compared.
///
/// In the table it is the name of the algorithm, a colon and the digest.
///
/// ```
/// use postroom::message::{ContentHash, hash_bytes};
///
/// let ours = ContentHash::from(hash_bytes("{}"));
/// assert_eq!((ours.algorithm(), ours.digest().len()), (Some("sha256"), 32));
/// let theirs = ContentHash::new("md5", [7; 16])?;
/// assert!(!ours.differs(&theirs), "they cannot be compared");
/// assert!(ours.differs(&hash_bytes("[]").into()));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ContentHash {
    algorithm: Option<String>,
    digest: Vec<u8>,
}

/// The algorithm of [`hash_bytes`] and [`hash_value`].
const SHA256: &str = "sha256";
const NAME_BYTES_MAX: usize = 32;
const DIGEST_BYTES_MAX: usize = 512;

impl ContentHash {
    /// Creates a hash that was not computed with [`hash_bytes`]. The name of the algorithm has up to 32 lower-case
    /// letters, digits and hyphens, and the digest has up to 512 bytes. If the same hash function is applied to
    /// differently prepared bytes, use a different name.
    pub fn new(algorithm: &str, digest: impl Into<Vec<u8>>) -> Result<Self> {
        let digest = digest.into();
        if !is_name(algorithm.as_bytes()) {
            let allowed = format!("1 to {NAME_BYTES_MAX} lower-case letters, digits and hyphens");
            return Err(Error::invalid(format!("the name of a hash algorithm must be {allowed}")));
        }
        if digest.is_empty() || digest.len() > DIGEST_BYTES_MAX {
            let bytes = digest.len();
            return Err(Error::invalid(format!("the hash has {bytes} bytes; 1 to {DIGEST_BYTES_MAX} are allowed")));
        }
        Ok(Self { algorithm: Some(algorithm.to_owned()), digest })
    }

    /// Returns its algorithm, or `None` if another program stored it without one.
    pub fn algorithm(&self) -> Option<&str> {
        self.algorithm.as_deref()
    }

    /// Returns the digest.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// Returns whether the contents certainly differ: both hashes have the same algorithm, and differ.
    pub fn differs(&self, other: &Self) -> bool {
        self.algorithm.is_some() && self.algorithm == other.algorithm && self.digest != other.digest
    }

    /// Wraps a hash that this crate computes over more than the content.
    #[doc(hidden)]
    pub fn of(algorithm: &'static str, digest: [u8; 32]) -> Self {
        Self { algorithm: Some(algorithm.to_owned()), digest: digest.into() }
    }

    /// Formats it as it is stored in a row.
    pub(crate) fn stored(&self) -> Vec<u8> {
        let name = self.algorithm.iter().flat_map(|name| [name.as_bytes(), b":"]);
        name.chain([self.digest.as_slice()]).collect::<Vec<_>>().concat()
    }

    /// Parses it as it is stored in a row.
    pub(crate) fn of_stored(bytes: Vec<u8>) -> Self {
        let colon = bytes.iter().take(NAME_BYTES_MAX + 1).position(|byte| *byte == b':');
        let name = colon.and_then(|at| std::str::from_utf8(&bytes[..at]).ok()).filter(|name| is_name(name.as_bytes()));
        match name {
            Some(name) => Self { algorithm: Some(name.to_owned()), digest: bytes[name.len() + 1..].to_vec() },
            None => Self { algorithm: None, digest: bytes },
        }
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_allowed)
}

impl From<[u8; 32]> for ContentHash {
    /// Wraps the result of [`hash_bytes`] or [`hash_value`].
    fn from(sha256: [u8; 32]) -> Self {
        Self::of(SHA256, sha256)
    }
}

/// Formats the algorithm, and the digest in hexadecimal digits: `sha256:e3b0…`.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm.as_deref().unwrap_or("unknown"))?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_says_what_it_was_made_with() {
        let ours = ContentHash::from(hash_bytes("abc"));
        assert!(ours.stored().starts_with(b"sha256:"));
        for hash in [ours, ContentHash::new("blake3", *b"a:b").unwrap()] {
            assert_eq!(ContentHash::of_stored(hash.stored()), hash);
        }
    }

    #[test]
    fn a_row_that_does_not_say_is_compared_with_nothing() {
        let ours = ContentHash::from(hash_bytes("abc"));
        for bare in [hash_bytes("abc").to_vec(), vec![], b":".to_vec(), b"SHA-256:x".to_vec(), vec![b'a'; 99]] {
            let read = ContentHash::of_stored(bare.clone());
            assert_eq!((read.algorithm(), read.digest()), (None, bare.as_slice()));
            assert!(!read.differs(&ours) && !ours.differs(&read) && !read.differs(&ContentHash::of_stored(vec![1])));
            assert_eq!(read.stored(), bare);
        }
    }

    #[test]
    fn names_and_digests_have_limits() {
        for name in ["", "SHA256", "sha_256", "a:b", &"x".repeat(33)] {
            assert!(ContentHash::new(name, [1]).is_err(), "{name}");
        }
        assert!(ContentHash::new("sha3-512", [1; 64]).is_ok());
        assert!(ContentHash::new("x", []).is_err());
        assert!(ContentHash::new("x", [0; 513]).is_err());
    }

    #[test]
    fn it_is_told_in_hexadecimal_digits() {
        assert_eq!(ContentHash::new("md5", [0, 255]).unwrap().to_string(), "md5:00ff");
        assert_eq!(format!("{:?}", ContentHash::of_stored(vec![1])), "unknown:01");
    }
}
