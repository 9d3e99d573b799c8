//! Secrets that two services share, and the keys derived from them. Nothing here can be printed.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::wire::algorithm::{HmacAlgorithm, Keyed};
use postroom_core::support::error::{Error, Result};

/// A secret has at least this many bytes; a shorter one could be guessed.
const SECRET_MIN: usize = 32;
/// The prefix of a secret in URL-safe base64. It helps scanners to find a leaked secret.
const SCANNABLE: &str = "rfsec_";

/// A secret of at least 32 bytes that two services share. It is never printed, and is wiped from memory when dropped.
///
/// As text it is `rfsec_` followed by URL-safe base64, `base64:` followed by base64, or any other text of at least 32
/// bytes, which is used as it is.
///
/// ```
/// use postroom::services::Secret;
///
/// let written = Secret::generate();
/// assert!(written.starts_with("rfsec_"));
/// assert!(Secret::parse(&written).is_ok());
/// assert!(Secret::parse("hunter2").is_err(), "it could be guessed");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret from these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < SECRET_MIN {
            let length = bytes.len();
            return Err(Error::invalid(format!("the secret has {length} bytes; at least {SECRET_MIN} are needed")));
        }
        Ok(Self(bytes))
    }

    /// Parses a secret from its text form.
    pub fn parse(text: &str) -> Result<Self> {
        let decoded = match (text.strip_prefix(SCANNABLE), text.strip_prefix("base64:")) {
            (Some(coded), _) => URL_SAFE_NO_PAD.decode(coded.trim_end_matches('=')),
            (_, Some(coded)) => STANDARD.decode(coded),
            _ => return Self::new(text),
        };
        // The decoder's own error is not used, because it quotes what was read.
        Self::new(decoded.map_err(|_| Error::invalid("the secret is not valid base64"))?)
    }

    /// Reads a secret from this environment variable.
    pub fn from_env(variable: &str) -> Result<Self> {
        read_env(variable, Self::parse)
    }

    /// Reads a secret from this file. Only the file's owner and its group may be able to read it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        read_file(path.as_ref(), Self::parse)
    }

    /// Generates a secret, as text for a file or a variable.
    pub fn generate() -> String {
        format!("{SCANNABLE}{}", URL_SAFE_NO_PAD.encode(random().as_slice()))
    }

    /// Starts an HMAC with this secret as its key.
    pub(crate) fn keyed(&self, algorithm: HmacAlgorithm) -> Keyed {
        algorithm.keyed(&self.0)
    }

    /// Derives a key for one purpose. A signature for another purpose never verifies with it.
    pub(crate) fn subkey(&self, algorithm: HmacAlgorithm, purpose: &str) -> Subkey {
        let key = Zeroizing::new(self.keyed(algorithm).chain_update(purpose).finish());
        Subkey(algorithm.keyed(&key))
    }
}

/// A key derived from a secret for one purpose. It keeps the HMAC state that does not depend on the message.
pub(crate) struct Subkey(Keyed);

impl Subkey {
    pub(crate) fn mac(&self) -> Keyed {
        self.0.clone()
    }
}

/// Generates the random bytes of a new secret.
pub(crate) fn random() -> Zeroizing<[u8; SECRET_MIN]> {
    let mut bytes = Zeroizing::new([0; SECRET_MIN]);
    for part in bytes.chunks_exact_mut(16) {
        // Each UUID of version 4 has 122 random bits from the operating system.
        part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    bytes
}

/// Reads a secret of any kind from this environment variable.
pub(crate) fn read_env<T>(variable: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let text = std::env::var(variable).map(Zeroizing::new);
    let text = text.map_err(|_| {
        Error::invalid(format!("no secret: the variable {variable} is not set; set it where this program starts"))
    })?;
    parse(text.trim()).map_err(|error| Error::invalid(format!("the variable {variable}: {error}")))
}

/// Reads a secret of any kind from this file. Only the file's owner and its group may be able to read it.
pub(crate) fn read_file<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let trouble = |error: &dyn fmt::Display| Error::invalid(format!("the secret in {}: {error}", path.display()));
    if std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(trouble(&"there is no such file; write the secret into it, readable only by its owner"));
    }
    check_private(path).map_err(|error| trouble(&error))?;
    let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| trouble(&error))?;
    parse(text.trim()).map_err(|error| trouble(&error))
}

/// Refuses a file that somebody other than its owner and its group can read.
#[cfg(unix)]
pub(crate) fn check_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path)?.permissions().mode();
    // The group may read it: the credentials of systemd and the secrets of a cluster have these modes.
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
