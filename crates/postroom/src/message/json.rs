//! Payloads and answers as JSON. An error names the place; it never quotes what stands there.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::error::{Error, ErrorKind, Result};

/// Reads `text`; `what` is what the error calls it.
pub(crate) fn read<T: DeserializeOwned>(what: impl fmt::Display, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable::<T>(&what, text, &error))
}

/// Writes `value`; `what` is what the error calls it.
pub(crate) fn write<T: Serialize>(what: impl fmt::Display, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        let mut track = serde_path_to_error::Track::new();
        let mut again = serde_json::Serializer::new(std::io::sink());
        let _ = value.serialize(serde_path_to_error::Serializer::new(&mut again, &mut track));
        let place = place(&track.path());
        Error::invalid(format!("{what} is not JSON{place}: {error}")).caused_by(error)
    })
}

/// Only what failed is read a second time: with the way there noted down.
fn unreadable<T: DeserializeOwned>(what: &dyn fmt::Display, text: &str, error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let why = if error.classify() != Category::Data {
        format!("{what} is not JSON, at line {line}, column {column}")
    } else {
        let tracked = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text));
        let place = tracked.err().map(|error| place(error.path())).unwrap_or_default();
        match (missing_field(&said), expected(&said)) {
            (Some(field), _) => format!("{what} lacks the field `{field}`{place}"),
            (None, Some(expected)) => format!("{what} does not fit its type{place}: expected {expected}"),
            (None, None) => format!("{what} does not fit its type{place}, at line {line}, column {column}"),
        }
    };
    Error::new(ErrorKind::Corrupt, why)
}

/// The type's own words: the name stands in its source text.
fn missing_field(said: &str) -> Option<&str> {
    said.strip_prefix("missing field `")?.split_once('`').map(|(field, _)| field)
}

/// What follows the content in serde's words: what the type says of itself.
fn expected(said: &str) -> Option<&str> {
    let (_, expected) = said.rsplit_once(", expected ")?;
    Some(expected.rsplit_once(" at line ").map_or(expected, |(expected, _)| expected))
}

/// `` at `items[2].price` ``; nothing for the whole. A key that is no name is somebody's data.
fn place(path: &Path) -> String {
    let mut place = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(if is_name(key) { key } else { "?" });
            }
            Segment::Unknown => place.push('?'),
        }
    }
    if place.is_empty() { place } else { format!(" at `{place}`") }
}

fn is_name(key: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    key.len() <= 64 && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && key.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Order {
        id: u64,
        lines: Vec<Line>,
        #[serde(default)]
        owners: HashMap<String, u64>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Line {
        price: u64,
    }

    fn why(text: &str) -> String {
        read::<Order>("the payload for order", text).unwrap_err().to_string()
    }

    #[test]
    fn an_error_names_the_field() {
        assert_eq!(
            why(r#"{"id":1,"lines":[{"price":2},{"price":"secret, expected nothing"}]}"#),
            "the payload for order does not fit its type at `lines[1].price`: expected u64"
        );
        assert_eq!(why(r#"{"lines":[]}"#), "the payload for order lacks the field `id`");
        assert_eq!(why(r#"{"id":1,"lines":[{}]}"#), "the payload for order lacks the field `price` at `lines[0]`");
        assert_eq!(why("{\"id\":"), "the payload for order is not JSON, at line 1, column 6");
        assert_eq!(why("{\"id\":1,\"lines\":[]} x"), "the payload for order is not JSON, at line 1, column 21");
    }

    #[test]
    fn an_error_never_quotes_the_content() {
        let said = why(r#"{"id":1,"lines":[],"owners":{"ann@example.com":"hunter2"}}"#);
        assert_eq!(said, "the payload for order does not fit its type at `owners.?`: expected u64");
    }

    #[test]
    fn what_cannot_be_written_is_named_too() {
        #[derive(Serialize)]
        struct Keyed {
            inner: HashMap<Vec<u8>, u8>,
        }
        let keyed = Keyed { inner: [(vec![1], 2)].into() };
        let said = write("the payload for keyed", &keyed).unwrap_err().to_string();
        assert_eq!(said, "the payload for keyed is not JSON at `inner`: key must be a string");
    }
}
