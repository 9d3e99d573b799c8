//! Payloads and answers as JSON. Errors name the position, and never quote the content.

use std::fmt;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use serde_json::ser::Formatter;
use serde_path_to_error::Segment;

use crate::support::error::{Error, ErrorKind, Result};

/// Decodes `text`. Errors call it `what`.
pub(crate) fn read<T: DeserializeOwned>(what: impl fmt::Display, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable::<T>(&what, text, &error))
}

/// The deepest nesting of arrays and objects. Common readers do not support more.
const DEPTH_MAX: usize = 127;

/// Encodes `value`. Errors call it `what`. It terminates even if the value contains itself.
pub(crate) fn write<T: Serialize>(what: impl fmt::Display, value: &T) -> Result<String> {
    let mut written = Vec::with_capacity(128);
    let done = value.serialize(&mut serde_json::Serializer::with_formatter(&mut written, Bounded::default()));
    done.map_err(|error| {
        if error.is_io() {
            let why = format!("{what} is nested deeper than {DEPTH_MAX} levels, or contains itself");
            return Error::invalid(why);
        }
        let mut track = serde_path_to_error::Track::new();
        let mut again = serde_json::Serializer::with_formatter(io::sink(), Bounded::default());
        let _ = value.serialize(serde_path_to_error::Serializer::new(&mut again, &mut track));
        let path: Vec<Segment> = track.path().iter().cloned().collect();
        // The error may quote the value, because the caller has it; only keys of maps in it stay secret.
        let place = place(&path, |at| is_name(&path[at]));
        Error::invalid(format!("{what} is not JSON{place}: {error}")).caused_by(error)
    })?;
    String::from_utf8(written).map_err(|error| Error::invalid(error.to_string()))
}

/// Writes compact JSON, and no deeper than it can be read again.
#[derive(Default)]
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn deeper(&mut self) -> io::Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(io::Error::other("too deep")) } else { Ok(()) }
    }
}

impl Formatter for Bounded {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.deeper()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.deeper()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

/// Only a text that could not be decoded is decoded again, this time with its path recorded.
fn unreadable<T: DeserializeOwned>(what: &dyn fmt::Display, text: &str, error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let why = if error.classify() != Category::Data {
        format!("{what} is not JSON, at line {line}, column {column}")
    } else {
        let place = place_of::<T>(text).unwrap_or_default();
        match (missing_field(&said), expected(&said)) {
            (Some(field), _) => format!("{what} has no field `{field}`{place}"),
            (None, Some(expected)) => format!("{what} does not match its type{place}: expected {expected}"),
            (None, None) => format!("{what} does not match its type{place}, at line {line}, column {column}"),
        }
    };
    Error::new(ErrorKind::Corrupt, why)
}

/// Serde's message names the field as the type's source code does.
fn missing_field(said: &str) -> Option<&str> {
    said.strip_prefix("missing field `")?.split_once('`').map(|(field, _)| field)
}

/// Serde's message ends with what the type expects. The part before it quotes the content.
fn expected(said: &str) -> Option<&str> {
    let is_serdes =
        ["invalid type: ", "invalid value: ", "invalid length "].iter().any(|words| said.starts_with(words));
    let (_, expected) = said.rsplit_once(", expected ").filter(|_| is_serdes)?;
    Some(expected.rsplit_once(" at line ").map_or(expected, |(expected, _)| expected))
}

/// Formats the path as `` at `items[2].price` ``, or as nothing for the whole value.
fn place_of<T: DeserializeOwned>(text: &str) -> Option<String> {
    let content: Value = serde_json::from_str(text).ok()?;
    let path = way_to_error::<T>(&content)?;
    Some(place(&path, |at| is_field::<T>(&content, &path, at)))
}

fn way_to_error<T: DeserializeOwned>(content: &Value) -> Option<Vec<Segment>> {
    Some(serde_path_to_error::deserialize::<_, T>(content).err()?.path().iter().cloned().collect())
}

/// Returns whether a name in the path belongs to the type rather than to the data. If a map's key is renamed, the same
/// error occurs under the new name. If a field is renamed, it does not.
fn is_field<T: DeserializeOwned>(content: &Value, path: &[Segment], at: usize) -> bool {
    let mut renamed = content.clone();
    let above = path[..at].iter().try_fold(&mut renamed, |value, segment| match segment {
        Segment::Seq { index } => value.get_mut(index),
        Segment::Map { key } | Segment::Enum { variant: key } => value.get_mut(key),
        Segment::Unknown => None,
    });
    let (Some(Value::Object(above)), Segment::Map { key }) = (above, &path[at]) else {
        return matches!(path[at], Segment::Enum { .. });
    };
    let (Some(value), other) = (above.remove(key), format!("{key}~")) else { return false };
    above.insert(other.clone(), value);
    let leads_through = |path: Vec<Segment>| matches!(path.get(at), Some(Segment::Map { key }) if *key == other);
    !way_to_error::<T>(&renamed).is_some_and(leads_through)
}

fn is_name(segment: &Segment) -> bool {
    let (Segment::Map { key } | Segment::Enum { variant: key }) = segment else { return false };
    key.len() <= 64 && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn place(path: &[Segment], is_field: impl Fn(usize) -> bool) -> String {
    let mut place = String::new();
    for (at, segment) in path.iter().enumerate() {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(if is_field(at) { key } else { "?" });
            }
            Segment::Unknown => place.push('?'),
        }
    }
    if place.is_empty() { place } else { format!(" at `{place}`") }
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
            "the payload for order does not match its type at `lines[1].price`: expected u64"
        );
        assert_eq!(why(r#"{"lines":[]}"#), "the payload for order has no field `id`");
        assert_eq!(why(r#"{"id":1,"lines":[{}]}"#), "the payload for order has no field `price` at `lines[0]`");
        assert_eq!(why("{\"id\":"), "the payload for order is not JSON, at line 1, column 6");
        assert_eq!(why("{\"id\":1,\"lines\":[]} x"), "the payload for order is not JSON, at line 1, column 21");
    }

    #[test]
    fn an_error_never_quotes_the_content() {
        for key in ["ann@example.com", "sk_live_4242", "id"] {
            let said = why(&format!(r#"{{"id":1,"lines":[],"owners":{{"a":1,"{key}":"hunter2"}}}}"#));
            assert_eq!(said, "the payload for order does not match its type at `owners.?`: expected u64");
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Strict {}
        let strict = read::<Strict>("it", r#"{"a, expected SECRET":1}"#).unwrap_err().to_string();
        assert!(!strict.contains("SECRET"), "{strict}");
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

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nest(Vec<Nest>);

    fn nest(levels: usize) -> Nest {
        (1..levels).fold(Nest(Vec::new()), |inner, _| Nest(vec![inner]))
    }

    #[test]
    fn what_can_be_written_can_be_read() {
        let deepest = nest(DEPTH_MAX);
        let text = write("it", &deepest).unwrap();
        assert_eq!(read::<Nest>("it", &text).unwrap(), deepest);
        let wide: Vec<Vec<u8>> = (0..1000).map(|_| Vec::new()).collect();
        assert_eq!(write("it", &wide).unwrap(), serde_json::to_string(&wide).unwrap(), "only what is open counts");
        let said = write("the payload for nest", &nest(DEPTH_MAX + 1)).unwrap_err().to_string();
        let expected = "the payload for nest is nested deeper than 127 levels, or contains itself";
        assert_eq!(said, expected);
        assert!(read::<Nest>("it", &serde_json::to_string(&nest(DEPTH_MAX + 1)).unwrap()).is_err());
    }

    #[test]
    fn what_contains_itself_without_end_is_refused_when_it_is_written() {
        /// What shared pointers can do: it is its own part.
        struct Ring;
        impl Serialize for Ring {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_map([("next", self)])
            }
        }
        let said = write("the payload for ring", &Ring).unwrap_err().to_string();
        assert!(said.contains("contains itself"), "{said}");
    }
}
