//! What a database was asked, by name: judged by pure code, so that every verdict can be tested without a database.

use std::collections::BTreeMap;
use std::fmt::Display;

/// What is known, by name. What a database does not know, or does not tell this user, is not in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Names are kept in lower case: databases do not agree on it.
    pub(crate) fn add(&mut self, name: &str, value: impl Display) {
        self.0.insert(name.to_ascii_lowercase(), value.to_string());
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Whether a switch is on, in any of the words databases have for it.
    pub(crate) fn is_on(&self, name: &str) -> Option<bool> {
        let value = self.text(name)?;
        Some(!["off", "0", "false", "f", "no", ""].iter().any(|off| value.eq_ignore_ascii_case(off)))
    }

    /// Everything whose name begins so, without that beginning.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// For tests of judgements.
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
