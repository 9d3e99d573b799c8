//! The facts that a database reports about itself, by name. Pure code judges them, so every verdict can be tested
//! without a database.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::sql::steps::{Found, Known};

/// The known facts, by name. A fact that the database does not have, or does not show to this user, is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Adds a fact. Names are kept in lower case, because databases differ in their spelling.
    pub(crate) fn add(&mut self, name: &str, value: impl Display) {
        self.0.insert(name.to_ascii_lowercase(), value.to_string());
    }

    /// Adds the versions of the tables that this program works with.
    pub(crate) fn knows(&mut self, known: Known) {
        self.add("schema.oldest", known.oldest);
        self.add("schema.wanted", known.newest);
    }

    /// Adds the version of the tables.
    pub(crate) fn found(&mut self, found: Found) {
        self.add("schema.found", found.version);
        self.add("schema.needs", found.needs);
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Whether a switch is on, in any of the words that databases use for it.
    pub(crate) fn is_on(&self, name: &str) -> Option<bool> {
        let value = self.text(name)?;
        Some(!["off", "0", "false", "f", "no", ""].iter().any(|off| value.eq_ignore_ascii_case(off)))
    }

    /// All facts whose name begins with `prefix`, without the prefix.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Builds facts for the tests of judgements.
#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Facts {
    fn from(known: [(&str, &str); N]) -> Self {
        let mut facts = Self::default();
        known.iter().for_each(|(name, value)| facts.add(name, value));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_in_every_dialect() {
        for (value, expected) in [("on", true), ("ON", true), ("1", true), ("t", true), ("OFF", false), ("0", false)] {
            assert_eq!(Facts::from([("Switch", value)]).is_on("switch"), Some(expected), "{value}");
        }
        assert_eq!(Facts::default().is_on("switch"), None);
    }
}
