//! Reads the members of a JSON object without parsing their values. No error quotes what was read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use postroom_core::support::error::{Error, Result};

const NAME_CHARS_SHOWN: usize = 40;

/// Each member of an object, with the exact text of its value.
pub(super) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Returns the members of the object in `text`. However deeply it is nested, this does not use the stack.
pub(super) fn members(text: &str) -> Result<Members<'_>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let pairs = json.deserialize_map(Pairs).and_then(|pairs| json.end().map(|()| pairs)).map_err(|error| {
        Error::invalid(format!("the body is not a JSON object (line {}, column {})", error.line(), error.column()))
    })?;
    let mut members = Members::new();
    for (name, value) in pairs {
        // The sender and we might disagree on which of the two counts.
        match members.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(value),
            Entry::Occupied(entry) => {
                return Err(Error::invalid(format!("the body has two members {}", quoted(entry.key()))));
            }
        }
    }
    Ok(members)
}

/// Returns a required member, which must be a string and not empty; `meaning` says what it is for.
pub(super) fn required(members: &Members<'_>, name: &str, meaning: &str) -> Result<String> {
    let Some(value) = members.get(name) else {
        return Err(Error::invalid(format!("the body has no member \"{name}\", which is {meaning}")));
    };
    let text = string(value).filter(|text| !text.is_empty());
    text.ok_or_else(|| Error::invalid(format!("the body's member \"{name}\", which is {meaning}, is not a string")))
}

/// Decodes a JSON string.
pub(super) fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Quotes a name for an error message, cut to a readable length.
pub(super) fn quoted(name: &str) -> String {
    let shown: String = name.chars().take(NAME_CHARS_SHOWN).collect();
    format!("{shown:?}{}", if shown.len() < name.len() { "…" } else { "" })
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_exact_text() {
        let members = members(r#" {"a": { "b" :1.50 }, "\u0063":"\u00e4"} "#).unwrap();
        assert_eq!(members["a"].get(), r#"{ "b" :1.50 }"#);
        assert_eq!(string(members["c"]).as_deref(), Some("ä"));
    }

    #[test]
    fn what_is_no_object_is_refused_without_being_quoted() {
        for bad in ["", "[]", "\"secret\"", "{\"a\":secret}", "{} secret", "{\"secret\"}", "{\"a\":1,}", "null", "7"] {
            let error = members(bad).unwrap_err().to_string();
            assert!(error.starts_with("the body is not a JSON object") && !error.contains("secret"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_name_that_appears_twice_is_refused_however_it_is_written() {
        let error = members(r#"{"type":1,"typ\u0065":2}"#).unwrap_err();
        assert_eq!(error.to_string(), "the body has two members \"type\"");
        let long = format!(r#"{{"{0}":1,"{0}":2}}"#, "x".repeat(100));
        assert!(members(&long).unwrap_err().to_string().ends_with("xxx\"…"));
    }

    #[test]
    fn a_million_brackets_do_no_harm() {
        let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(members(&format!("{{\"a\":{open}{close}}}")).unwrap()["a"].get().len(), 2_000_000);
        assert!(members(&open).is_err());
        assert!(members(&"{\"a\":".repeat(1_000_000)).is_err());
        assert_eq!(string(members(&format!("{{\"a\":{open}{close}}}")).unwrap()["a"]), None);
    }

    #[test]
    fn what_is_required_is_named_when_it_is_missing() {
        let members = members(r#"{"a":"x","b":7,"c":"","d":null}"#).unwrap();
        assert_eq!(required(&members, "a", "the id").unwrap(), "x");
        let missing = required(&members, "type", "the topic").unwrap_err().to_string();
        assert_eq!(missing, "the body has no member \"type\", which is the topic");
        for name in ["b", "c", "d"] {
            let error = required(&members, name, "the id").unwrap_err().to_string();
            assert_eq!(error, format!("the body's member \"{name}\", which is the id, is not a string"));
        }
    }
}
