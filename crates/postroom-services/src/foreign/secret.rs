//! Secrets that webhook providers issue, and the keys they stand for. Nothing here can be printed.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::Mac;
use zeroize::Zeroizing;

use crate::wire::algorithm::mac;
use crate::wire::secret::{random, read_env, read_file};
use postroom_core::support::error::{Error, Result};

/// The prefix of Standard Webhooks secrets. It helps scanners to find a leaked secret.
const SCANNABLE: &str = "whsec_";

/// Decodes base64 leniently, because providers and their tools disagree on padding and on bits after the last byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A secret that signs webhooks, as its provider shows it. It is never printed, and is wiped from memory when
/// dropped.
///
/// The provider chooses its length, so unlike a [`Secret`](crate::Secret) it may be short; it is never empty.
///
/// ```no_run
/// use postroom::webhooks::WebhookSecret;
///
/// let from_text = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let from_env = WebhookSecret::from_env("STRIPE_WEBHOOK_SECRET")?;
/// let from_file = WebhookSecret::from_file("/run/secrets/github")?;
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone)]
pub struct WebhookSecret(Zeroizing<String>);

impl WebhookSecret {
    /// Takes the provider's text as the secret, exactly as it is.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::invalid("a webhook's secret must not be empty"));
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// Reads a secret from this environment variable, without surrounding whitespace.
    pub fn from_env(variable: &str) -> Result<Self> {
        read_env(variable, Self::parse)
    }

    /// Reads a secret from this file, without surrounding whitespace. Only the file's owner and its group may be able
    /// to read it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        read_file(path.as_ref(), Self::parse)
    }

    /// Generates a secret for [`WebhookSigner`](crate::WebhookSigner), as text for a file, a variable and the
    /// receiver.
    pub fn generate() -> String {
        format!("{SCANNABLE}{}", STANDARD.encode(random().as_slice()))
    }

    /// Decodes the key in a secret of Standard Webhooks.
    fn decode(&self) -> Result<Zeroizing<Vec<u8>>> {
        if self.0.starts_with("whsk_") || self.0.starts_with("whpk_") {
            return Err(Error::invalid("this is a key for ed25519 signatures; only secrets (whsec_…) can be used"));
        }
        let coded = self.0.strip_prefix(SCANNABLE).unwrap_or(&self.0);
        // The decoder's own error is not used, because it quotes what was read.
        let key = LENIENT.decode(coded).map(Zeroizing::new);
        let key = key.map_err(|_| Error::invalid("a secret of Standard Webhooks must be whsec_ followed by base64"))?;
        if key.is_empty() {
            return Err(Error::invalid("a webhook's secret must not be empty"));
        }
        Ok(key)
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The keys of the valid secrets: at least one, and a second one while a secret is being replaced.
#[derive(Clone)]
pub(super) struct Keys(Vec<Zeroizing<Vec<u8>>>);

impl Keys {
    /// Uses the text of each secret as a key.
    pub(super) fn literal(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Self::new(secrets, |secret| Ok(Zeroizing::new(secret.0.as_bytes().to_vec())))
    }

    /// Decodes each secret as a key in base64.
    pub(super) fn decoded(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Self::new(secrets, WebhookSecret::decode)
    }

    fn new(
        secrets: impl IntoIterator<Item = WebhookSecret>,
        key: impl Fn(&WebhookSecret) -> Result<Zeroizing<Vec<u8>>>,
    ) -> Result<Self> {
        let keys: Vec<_> = secrets.into_iter().map(|secret| key(&secret)).collect::<Result<_>>()?;
        if keys.is_empty() {
            return Err(Error::invalid("webhooks need at least one secret"));
        }
        Ok(Self(keys))
    }

    /// Returns the length of the shortest key, in bytes.
    pub(super) fn shortest(&self) -> usize {
        self.0.iter().map(|key| key.len()).min().unwrap_or(0)
    }

    /// Signs the parts of a text with each key.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> Vec<[u8; 32]> {
        self.macs(parts).map(|mac| mac.finalize().into_bytes().into()).collect()
    }

    /// Returns whether one of the signatures was made of these parts with one of the keys. It compares in constant
    /// time.
    pub(super) fn accept(&self, parts: &[&[u8]], signatures: &[[u8; 32]]) -> bool {
        self.macs(parts).any(|mac| signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok()))
    }

    fn macs(&self, parts: &[&[u8]]) -> impl Iterator<Item = hmac::Hmac<sha2::Sha256>> {
        self.0.iter().map(|key| parts.iter().fold(mac(key), |mac, part| mac.chain_update(part)))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} …)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Keys> {
        Keys::decoded([WebhookSecret::parse(text)?])
    }

    #[test]
    fn a_secret_is_never_empty() {
        for text in ["", " ", "\n"] {
            assert!(WebhookSecret::parse(text).is_err(), "{text:?}");
        }
        assert!(decoded("whsec_").is_err());
        assert!(Keys::literal([]).is_err());
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = WebhookSecret::parse("hunter2").unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
        assert_eq!(format!("{:?}", Keys::literal([secret.clone(), secret])), "Ok(Keys(2 …))");
        for wrong in ["whsec_hunter2!", "whsk_hunter2", "whpk_hunter2"] {
            assert!(!decoded(wrong).unwrap_err().to_string().contains("hunter2"));
        }
    }

    // These are the reference library's own cases: no padding needed, one or two padding characters missing, with and
    // without the prefix.
    #[test]
    fn base64_is_taken_with_and_without_prefix_and_padding() {
        for (text, padding) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ""),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "="),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr", "=="),
        ] {
            let keys = [text.to_owned(), format!("{text}{padding}"), format!("whsec_{text}")];
            let keys = keys.map(|text| decoded(&text).unwrap().0);
            assert!(keys[0] == keys[1] && keys[1] == keys[2], "{text}");
        }
    }

    #[test]
    fn new_secrets_can_be_read_and_differ() {
        let (one, two) = (WebhookSecret::generate(), WebhookSecret::generate());
        assert_eq!(decoded(&one).unwrap().shortest(), 32);
        assert_ne!(one, two);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_trimmed_and_nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "It's a Secret to Everybody\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(*WebhookSecret::from_file(&path).unwrap().0, "It's a Secret to Everybody");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(WebhookSecret::from_file(&path).is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let error = WebhookSecret::from_env("POSTROOM_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert!(error.contains("POSTROOM_NO_SUCH_VARIABLE"), "{error}");
    }
}
