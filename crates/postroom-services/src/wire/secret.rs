//! Secrets that two services share, and the keys made of them. Nothing here can be printed.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::wire::algorithm::{HmacAlgorithm, Keyed};
use postroom_core::support::error::{Error, Result};

/// A shorter secret could be guessed.
const SECRET_MIN: usize = 32;
/// Stands before a secret that is written as URL-safe base64, so that scanners find one that leaked.
const SCANNABLE: &str = "rfsec_";

/// A secret that two services share: at least 32 bytes. Never printed, and wiped from memory when it is dropped.
///
/// As text it is `rfsec_` and URL-safe base64, `base64:` and base64, or any other text of at least 32 bytes, taken as
/// it is.
///
/// ```
/// use postroom::Secret;
///
/// let written = Secret::generate();
/// assert!(written.starts_with("rfsec_"));
/// assert!(Secret::parse(&written).is_ok());
/// assert!(Secret::parse("hunter2").is_err(), "it could be guessed");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < SECRET_MIN {
            let length = bytes.len();
            return Err(Error::invalid(format!("a secret of {length} bytes; at least {SECRET_MIN} are needed")));
        }
        Ok(Self(bytes))
    }

    /// A secret in its written form.
    pub fn parse(text: &str) -> Result<Self> {
        let decoded = match (text.strip_prefix(SCANNABLE), text.strip_prefix("base64:")) {
            (Some(coded), _) => URL_SAFE_NO_PAD.decode(coded.trim_end_matches('=')),
            (_, Some(coded)) => STANDARD.decode(coded),
            _ => return Self::new(text),
        };
        // Not the decoder's own words: they quote what it read.
        Self::new(decoded.map_err(|_| Error::invalid("a secret is not the base64 it says it is"))?)
    }

    /// A secret from this environment variable.
    pub fn from_env(variable: &str) -> Result<Self> {
        read_env(variable, Self::parse)
    }

    /// A secret from this file, which nobody but its owner and its group may be able to read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        read_file(path.as_ref(), Self::parse)
    }

    /// A new secret, as text for a file or a variable.
    pub fn generate() -> String {
        format!("{SCANNABLE}{}", URL_SAFE_NO_PAD.encode(random().as_slice()))
    }

    /// HMAC with this secret as its key.
    pub(crate) fn keyed(&self, algorithm: HmacAlgorithm) -> Keyed {
        algorithm.keyed(&self.0)
    }

    /// A key for one purpose: what is signed for another can never pass for it.
    pub(crate) fn subkey(&self, algorithm: HmacAlgorithm, purpose: &str) -> Subkey {
        let key = Zeroizing::new(self.keyed(algorithm).chain_update(purpose).finish());
        Subkey(algorithm.keyed(&key))
    }
}

/// A key made of a secret for one purpose. It is kept as far as HMAC can be told without the message.
pub(crate) struct Subkey(Keyed);

impl Subkey {
    pub(crate) fn mac(&self) -> Keyed {
        self.0.clone()
    }
}

/// What a new secret is made of.
pub(crate) fn random() -> Zeroizing<[u8; SECRET_MIN]> {
    let mut bytes = Zeroizing::new([0; SECRET_MIN]);
    for part in bytes.chunks_exact_mut(16) {
        // Version 4: 122 random bits of the operating system's in each.
        part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    bytes
}

/// A secret of any kind from this environment variable.
pub(crate) fn read_env<T>(variable: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let text = std::env::var(variable).map(Zeroizing::new);
    let text = text.map_err(|_| {
        Error::invalid(format!("no secret: the variable {variable} is not set; set it where this program starts"))
    })?;
    parse(text.trim()).map_err(|error| Error::invalid(format!("the variable {variable}: {error}")))
}

/// A secret of any kind from this file, which nobody but its owner and its group may be able to read.
pub(crate) fn read_file<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let trouble = |error: &dyn fmt::Display| Error::invalid(format!("the secret in {}: {error}", path.display()));
    if std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(trouble(&"there is no such file; write the secret into it, readable for its owner alone"));
    }
    check_private(path).map_err(|error| trouble(&error))?;
    let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| trouble(&error))?;
    parse(text.trim()).map_err(|error| trouble(&error))
}

/// Refuses a file that others than its owner and its group can read.
#[cfg(unix)]
pub(crate) fn check_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path)?.permissions().mode();
    // Its group may read it: so do systemd's credentials and a cluster's secrets look.
    if mode & 0o037 != 0 {
        let mode = mode & 0o777;
        return Err(std::io::Error::other(format!("others may read or change it (mode {mode:o}); make it 600 or 640")));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check_private(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Debug for Subkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subkey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_secret_is_refused_in_every_form() {
        for text in ["", "short", "rfsec_c2hvcnQ", "base64:c2hvcnQ=", "base64:???"] {
            assert!(Secret::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_form_gives_the_same_bytes() {
        let plain = Secret::parse("an example secret, long enough to be one").unwrap();
        let coded = STANDARD.encode(&*plain.0);
        assert_eq!(Secret::parse(&format!("base64:{coded}")).unwrap(), plain);
        let scannable = URL_SAFE_NO_PAD.encode(&*plain.0);
        assert_eq!(Secret::parse(&format!("rfsec_{scannable}")).unwrap(), plain);
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::parse("an example secret, long enough to be one").unwrap();
        assert_eq!(format!("{secret:?} {:?}", secret.subkey(HmacAlgorithm::default(), "a")), "Secret(…) Subkey(…)");
    }

    #[test]
    fn new_secrets_can_be_read_and_differ() {
        let (one, two) = (Secret::generate(), Secret::generate());
        assert_ne!(Secret::parse(&one).unwrap(), Secret::parse(&two).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, format!("{}\n", Secret::generate())).unwrap();
        for (mode, fine) in
            [(0o600, true), (0o440, true), (0o640, true), (0o660, false), (0o604, false), (0o610, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Secret::from_file(&path).is_ok(), fine, "{mode:o}");
        }
        let missing = Secret::from_file(dir.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
    }
}
