//! The rules for texts, in one place: they are the same on every database.

use std::time::Duration;

use crate::message::Headers;
use crate::support::error::{Error, Result};

/// The longest topic, source, id, destination and correlation id, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// The longest name of a service.
pub const SERVICE_MAX: usize = 64;
/// The prefixes of header names that belong to the wire.
pub const RESERVED: &str = "rf-";
const HEADERS_MAX: usize = 64;
const HEADERS_BYTES_MAX: usize = 16 * 1024;
const ERROR_CHARS_MAX: usize = 4000;

/// Checks a name: it is not empty, has at most 255 characters, and is distinct on every database.
pub fn name(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    let chars = text.chars().count();
    if chars > NAME_CHARS_MAX {
        return Err(Error::invalid(format!("{what} has {chars} characters; at most {NAME_CHARS_MAX} are allowed")));
    }
    if let Some(control) = text.chars().find(|sign| sign.is_control()) {
        return Err(Error::invalid(format!("{what} must not contain {}", described(control))));
    }
    if text.ends_with(' ') {
        return Err(Error::invalid(format!("{what} must not end with a space: some databases ignore it")));
    }
    Ok(())
}

/// Checks the name of a service: `[a-z0-9][a-z0-9._-]{0,63}`.
pub fn service(what: &str, name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = name.bytes();
    let is_fine = bytes.next().is_some_and(allowed) && bytes.all(|byte| allowed(byte) || b"._-".contains(&byte));
    if !is_fine || name.len() > SERVICE_MAX {
        return Err(Error::invalid(format!(
            "{what} must be 1 to {SERVICE_MAX} of a-z, 0-9, '.', '_' and '-', and begin with a letter or digit"
        )));
    }
    Ok(())
}

/// Describes a control character, which is invisible and may confuse a terminal.
fn described(control: char) -> String {
    match control {
        '\n' | '\r' => "a line break".into(),
        '\t' => "a tab".into(),
        other => format!("the control character U+{:04X}", u32::from(other)),
    }
}

pub(crate) fn payload(text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid("a payload must not contain U+0000: not every database can store it"));
    }
    Ok(())
}

/// Checks a time to live.
pub(super) fn life(ttl: Option<Duration>) -> Result<()> {
    match ttl {
        Some(Duration::ZERO) => Err(Error::invalid("a message's time to live must be longer than zero")),
        _ => Ok(()),
    }
}

pub(crate) fn headers(headers: &Headers) -> Result<()> {
    if headers.len() > HEADERS_MAX {
        return Err(Error::invalid(format!(
            "the message has {} headers; at most {HEADERS_MAX} are allowed",
            headers.len()
        )));
    }
    let bytes: usize = headers.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(Error::invalid(format!("the headers have {bytes} bytes; at most {HEADERS_BYTES_MAX} are allowed")));
    }
    for (key, value) in headers {
        name("a header's name", key)?;
        if value.contains('\0') {
            return Err(Error::invalid(format!("the header {key} must not contain U+0000")));
        }
    }
    Ok(())
}

/// Prepares an error text for storage: it is cut to a limit and storable everywhere, or `None` if it is empty.
pub fn error_text(text: &str) -> Option<String> {
    let stored: String = text.chars().take(ERROR_CHARS_MAX).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    (!stored.is_empty()).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_length_and_a_grammar() {
        assert!(name("topic", "order.approved").is_ok());
        assert!(name("topic", &"ä".repeat(255)).is_ok());
        for bad in ["", &"x".repeat(256), "a\0b", "trailing ", "a\nb", "\u{1b}[31mred", "a\u{9b}b"] {
            assert!(name("topic", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn services_have_a_grammar() {
        for good in ["a", "orders", "orders-2.eu_west", &"x".repeat(64)] {
            assert!(service("source", good).is_ok(), "{good}");
        }
        for bad in ["", "Orders", "-a", ".a", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
            assert!(service("source", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn errors_are_bounded_and_empty_is_none() {
        assert_eq!(error_text(""), None);
        assert_eq!(error_text("a\0b").as_deref(), Some("a\u{fffd}b"));
        assert_eq!(error_text(&"x".repeat(9000)).map(|text| text.len()), Some(4000));
    }
}
