//! The grammar of names on the wire. A v1 signature depends on it, because v1 signs the names without separators.

use postroom_core::message::SERVICE_MAX;
pub(crate) use postroom_core::message::check_service as service;
use postroom_core::support::error::{Error, Result};

const ENDPOINT_MAX: usize = 255;
const UUID_CHARS: usize = 36;

/// Checks that the text is a UUID in lower case with hyphens, which always has 36 characters.
pub(crate) fn message_id(text: &str) -> Result<()> {
    let is_canonical = text.len() == UUID_CHARS
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if !is_canonical || text.bytes().all(|byte| matches!(byte, b'0' | b'-')) {
        return Err(Error::invalid("messageId must be a UUID in lower case, with hyphens, and not the nil one"));
    }
    Ok(())
}

/// Checks a topic: it has no whitespace and no control characters.
pub(crate) fn endpoint(name: &str) -> Result<()> {
    let chars = name.chars().count();
    if chars == 0 || chars > ENDPOINT_MAX || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let limit = ENDPOINT_MAX;
        return Err(Error::invalid(format!(
            "endpoint must be 1 to {limit} characters without whitespace and control characters"
        )));
    }
    Ok(())
}

/// Checks the id of a key, which must fit in a header.
pub(crate) fn key_id(id: &str) -> Result<()> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if id.is_empty() || id.len() > SERVICE_MAX || !id.bytes().all(is_fine) {
        return Err(Error::invalid(format!(
            "a key's id must be 1 to {SERVICE_MAX} letters, digits, '.', '_' and '-'; this is {id:?}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_canonical_uuid_is_a_message_id() {
        assert!(message_id("a1b2c3d4-e5f6-7890-abcd-ef1234567890").is_ok());
        for bad in [
            "",
            "A1B2C3D4-E5F6-7890-ABCD-EF1234567890",
            "a1b2c3d4e5f67890abcdef1234567890",
            "{a1b2c3d4-e5f6-7890-abcd-ef1234567890}",
            "a1b2c3d4-e5f6-7890-abcd-ef1234567890 ",
            "00000000-0000-0000-0000-000000000000",
            "ä1b2c3d4-e5f6-7890-abcd-ef123456789",
        ] {
            assert!(message_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_and_keys_have_a_grammar() {
        assert!(endpoint("OrderApproved").is_ok() && endpoint("/v1/größe").is_ok());
        for bad in ["", "a b", "a\nb", "a\u{a0}b", &"x".repeat(256)] {
            assert!(endpoint(bad).is_err(), "{bad:?}");
        }
        assert!(key_id("2026-11").is_ok() && key_id("a;b").is_err() && key_id("").is_err());
    }
}
