//! Signatures. v2 is in transport headers and covers everything that matters, with a length before each piece. v1 is
//! inside the envelope.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::wire::algorithm::{HmacAlgorithm, Keyed};
use crate::wire::envelope::Envelope;
use crate::wire::key::Key;
use postroom_core::message::{encode_pieces, hash_bytes};
use postroom_core::support::clock::Timestamp;

/// At most this many signatures of one request are checked.
const SIGNATURES_MAX: usize = 8;

/// The fields of a request that a v2 signature covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    pub source: String,
    pub destination: String,
    pub method: String,
    pub path: String,
    pub message_id: String,
    pub enqueued_at: Timestamp,
    pub due_at: Option<Timestamp>,
    pub attempt: u32,
    /// When the request was signed.
    pub timestamp: Timestamp,
    pub content_type: String,
    pub digest: [u8; 32],
}

impl Head {
    fn mac(&self, key: &Key) -> Keyed {
        let due_at = self.due_at.map(|due| due.as_micros().to_string()).unwrap_or_default();
        pieces(
            key.material.request.mac(),
            &[
                b"rf-sig-v2",
                b"req",
                key.id().as_bytes(),
                self.source.as_bytes(),
                self.destination.as_bytes(),
                self.method.as_bytes(),
                self.path.as_bytes(),
                self.message_id.as_bytes(),
                self.enqueued_at.as_micros().to_string().as_bytes(),
                due_at.as_bytes(),
                self.attempt.to_string().as_bytes(),
                self.timestamp.as_micros().to_string().as_bytes(),
                self.content_type.as_bytes(),
                &self.digest,
            ],
        )
    }

    /// Signs with each key, and returns the text of the header.
    #[doc(hidden)]
    pub fn sign(&self, keys: &[Key]) -> String {
        Signature::list(keys, |key| self.mac(key))
    }

    /// Returns whether one of the signatures was made with one of the keys. An unknown key takes as long as a wrong
    /// signature: a decoy stands in for a key that is missing or has another algorithm, and the signature's length
    /// selects the decoy.
    #[doc(hidden)]
    pub fn is_signed(&self, signatures: &[Signature], keys: &[Key], decoys: &[Key]) -> bool {
        let mut verified = false;
        for signature in signatures {
            let fits = |key: &&Key| key.hmac_algorithm().length() == signature.mac.len();
            let key = keys.iter().find(|key| key.id() == signature.key_id).filter(fits);
            let tried = key.or_else(|| decoys.iter().find(fits));
            let holds = tried.is_some_and(|tried| self.mac(tried).is(&signature.mac));
            verified |= holds && key.is_some();
        }
        verified
    }
}

/// The fields that a receipt covers: which request it answers, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The service that answers.
    pub destination: String,
    pub message_id: String,
    /// When the request was signed.
    pub timestamp: Timestamp,
    pub status: u16,
    pub digest: [u8; 32],
    /// Response headers that the receipt covers: how long to wait, and the dedupe window.
    pub beside: Option<[String; 2]>,
}

impl Receipt {
    fn mac(&self, key: &Key) -> Keyed {
        let (timestamp, status) = (self.timestamp.as_micros().to_string(), self.status.to_string());
        let mut list: Vec<&[u8]> = vec![
            b"rf-ack-v2",
            b"ack",
            key.id().as_bytes(),
            self.destination.as_bytes(),
            self.message_id.as_bytes(),
            timestamp.as_bytes(),
            status.as_bytes(),
            &self.digest,
        ];
        list.extend(self.beside.iter().flatten().map(String::as_bytes));
        pieces(key.material.receipt.mac(), &list)
    }

    #[doc(hidden)]
    pub fn sign(&self, keys: &[Key]) -> String {
        Signature::list(keys, |key| self.mac(key))
    }

    #[doc(hidden)]
    pub fn is_signed(&self, signatures: &[Signature], keys: &[Key]) -> bool {
        signatures.iter().any(|signature| {
            let key = keys.iter().find(|key| key.id() == signature.key_id);
            key.is_some_and(|key| self.mac(key).is(&signature.mac))
        })
    }
}

/// One signature: `v2;kid=K;BASE64URL`. Its key determines the algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    key_id: String,
    mac: Vec<u8>,
}

impl Signature {
    fn made(key: &Key, mac: Keyed) -> Self {
        Self { key_id: key.id().to_owned(), mac: mac.finish() }
    }

    /// Signs with each key, and returns the text of the header.
    fn list(keys: &[Key], mac: impl Fn(&Key) -> Keyed) -> String {
        let signatures = keys.iter().map(|key| Self::made(key, mac(key)).to_string());
        signatures.collect::<Vec<_>>().join(",")
    }

    /// Parses the signatures of a header. It skips those that are not v2.
    #[doc(hidden)]
    pub fn parse_list(header: &str) -> Vec<Self> {
        header.split(',').take(SIGNATURES_MAX).filter_map(|text| Self::parse(text.trim())).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (key_id, coded) = text.strip_prefix("v2;kid=")?.split_once(';')?;
        let mac = URL_SAFE_NO_PAD.decode(coded).ok()?;
        HmacAlgorithm::ALL.iter().find(|algorithm| algorithm.length() == mac.len())?;
        Some(Self { key_id: key_id.to_owned(), mac })
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v2;kid={};{}", self.key_id, URL_SAFE_NO_PAD.encode(&self.mac))
    }
}

fn pieces(mut mac: Keyed, pieces: &[&[u8]]) -> Keyed {
    encode_pieces(pieces, |bytes| mac.update(bytes));
    mac
}

/// Returns the v1 signature of an envelope with one key.
pub fn sign_v1(envelope: &Envelope, key: &Key) -> String {
    STANDARD.encode(mac_v1(envelope, key).finish())
}

/// Returns whether the envelope's v1 signature was made with one of the keys.
pub fn is_signed_v1(envelope: &Envelope, signature: &str, keys: &[Key], decoys: &[Key]) -> bool {
    let signature = STANDARD.decode(signature).unwrap_or_default();
    decoys.iter().for_each(|decoy| _ = mac_v1(envelope, decoy).is(&signature));
    keys.iter().fold(false, |verified, key| verified | mac_v1(envelope, key).is(&signature))
}

fn mac_v1(envelope: &Envelope, key: &Key) -> Keyed {
    key.secret()
        .keyed(key.hmac_algorithm())
        .chain_update(&envelope.message_id)
        .chain_update(&envelope.source_service_id)
        .chain_update(&envelope.endpoint)
        .chain_update(hex(&hash_bytes(envelope.payload.get())))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 64 hexadecimal digits in lower case.
pub(crate) fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_lower_case_digits_are_a_digest() {
        let mut expected = [0xff; 32];
        (expected[0], expected[31]) = (0x0a, 0x90);
        assert_eq!(parse_hex(&format!("0a{}90", "ff".repeat(30))), Some(expected));
        for bad in ["", "0a", &"0".repeat(63), &"0".repeat(65), &"F".repeat(64), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
    }
}
