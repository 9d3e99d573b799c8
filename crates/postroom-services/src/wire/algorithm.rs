//! The hash function that a key signs with.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};

use postroom_core::support::error::{Error, Result};

/// The hash function that a [`Key`](crate::Key) signs with. Both sides set it with the key, and no message names it,
/// so the sender of a message cannot choose a weaker one.
///
/// ```
/// use postroom::services::{HmacAlgorithm, Key, Secret};
///
/// let secret = Secret::parse(&Secret::generate())?;
/// let key = Key::new("2026-11", secret)?.algorithm(HmacAlgorithm::Sha512);
/// assert_eq!("HMAC-SHA512".parse::<HmacAlgorithm>()?, HmacAlgorithm::Sha512);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum HmacAlgorithm {
    /// `HMAC-SHA256`, which every peer supports.
    #[default]
    Sha256,
    /// `HMAC-SHA512`.
    Sha512,
}

impl HmacAlgorithm {
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the length of a signature in bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Starts an HMAC with this key. It accepts keys of every length; an empty one cannot get here.
    pub(crate) fn keyed(self, key: &[u8]) -> Keyed {
        match self {
            Self::Sha256 => Keyed::Sha256(mac(key)),
            Self::Sha512 => Keyed::Sha512(Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))),
        }
    }
}

/// Starts an HMAC-SHA256 with this key.
pub fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

impl fmt::Display for HmacAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "HMAC-SHA256",
            Self::Sha512 => "HMAC-SHA512",
        })
    }
}

impl FromStr for HmacAlgorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.to_string() == text);
        found.ok_or_else(|| Error::invalid(format!("{text:?} is not an algorithm; use HMAC-SHA256 or HMAC-SHA512")))
    }
}

/// An HMAC with a key that is still being computed.
#[derive(Clone)]
pub(crate) enum Keyed {
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

impl Keyed {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(mac) => mac.update(bytes),
            Self::Sha512(mac) => mac.update(bytes),
        }
    }

    pub(crate) fn chain_update(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.update(bytes.as_ref());
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha256(mac) => mac.finalize().into_bytes().to_vec(),
            Self::Sha512(mac) => mac.finalize().into_bytes().to_vec(),
        }
    }

    /// Compares with the given HMAC in constant time. An HMAC of another length never matches.
    pub(crate) fn is(self, given: &[u8]) -> bool {
        match self {
            Self::Sha256(mac) => mac.verify_slice(given).is_ok(),
            Self::Sha512(mac) => mac.verify_slice(given).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_that_is_read_again() {
        for algorithm in HmacAlgorithm::ALL {
            assert_eq!(algorithm.to_string().parse::<HmacAlgorithm>().unwrap(), algorithm);
        }
        let unknown = "HMAC-MD5".parse::<HmacAlgorithm>().unwrap_err();
        assert_eq!(unknown.to_string(), "\"HMAC-MD5\" is not an algorithm; use HMAC-SHA256 or HMAC-SHA512");
    }

    #[test]
    fn a_part_of_a_mac_is_never_the_mac() {
        for algorithm in HmacAlgorithm::ALL {
            let keyed = algorithm.keyed(b"a key").chain_update("a message");
            let made = keyed.clone().finish();
            assert_eq!(made.len(), algorithm.length());
            assert!(keyed.clone().is(&made));
            for part in [&made[..0], &made[..16], &made[..made.len() - 1], &[&made[..], &[0]].concat()] {
                assert!(!keyed.clone().is(part), "{algorithm}: {} bytes", part.len());
            }
        }
    }
}
