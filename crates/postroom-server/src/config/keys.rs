//! Keys that two services share: an id, the place of the secret, and the signing algorithm.

use postroom::services::{HmacAlgorithm, Key, Secret};

use super::Config;
use super::reader::Section;
use super::secrets::SecretRef;
use super::tree::{At, Value};

/// A key, as the file describes it.
#[derive(Clone, PartialEq)]
pub(crate) struct KeyRef {
    pub(super) id: String,
    pub(super) secret: SecretRef,
    pub(super) algorithm: HmacAlgorithm,
}

impl Section<'_> {
    /// Keys by their ids.
    pub(super) fn keys(&mut self, key: &'static str) -> Vec<KeyRef> {
        let Some(node) = self.take(key).and_then(|node| self.structured(key, node)) else { return Vec::new() };
        let Value::Table(table) = node.value else {
            self.wrong(key, &node, "a table of ids, like { \"2026-11\" = { env = \"VARIABLE\" } }");
            return Vec::new();
        };
        let entries = table.into_iter().filter_map(|(id, (_, mut node))| {
            let what = format!("the key `{id}`");
            let algorithm = match &mut node.value {
                Value::Table(table) => table.remove("algorithm").map(|(_, node)| node.value),
                _ => None,
            };
            let algorithm = self.algorithm(&what, &node.at, algorithm);
            let secret = self.secret(&what, node)?;
            Some(KeyRef { id, secret, algorithm })
        });
        entries.collect()
    }

    fn algorithm(&self, what: &str, at: &At, told: Option<Value>) -> HmacAlgorithm {
        let read = match told {
            None => return HmacAlgorithm::default(),
            Some(Value::Text(text)) => text.parse().ok(),
            Some(_) => None,
        };
        read.unwrap_or_else(|| {
            let wanted = "\"HMAC-SHA256\" or \"HMAC-SHA512\"";
            self.mistake(at, format!("`algorithm` of {what} in {} must be {wanted}", self.title));
            HmacAlgorithm::default()
        })
    }
}

impl Config {
    pub(super) fn open_keys(&self, keys: &[KeyRef], told: &mut Vec<(At, String)>) -> Vec<Key> {
        let read = keys.iter().filter_map(|KeyRef { id, secret, algorithm }| {
            let read = self.read_secret(secret, Secret::from_env, |path| Secret::from_file(path));
            let key = read.and_then(|read| Ok(Key::new(id, read)?.algorithm(*algorithm)));
            key.map_err(|error| told.push((secret.at.clone(), format!("{}: {error}", secret.of)))).ok()
        });
        read.collect()
    }
}
