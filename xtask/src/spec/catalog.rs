//! The requirements, and those that are not asked of every backend today.

use anyhow::{Result, ensure};
use serde::Deserialize;

const SERIES: &[(&str, u16)] = &[("IBX", 130), ("OBX", 107)];

/// What `requirements.json` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    pub(super) backends: Vec<String>,
    /// Those that owe a proof only where they were tested.
    #[serde(default)]
    pub(super) optional: Vec<String>,
    later: Vec<Later>,
    not_applicable: Vec<NotApplicable>,
}

/// Requirements of a coming release, the last one included.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    from: String,
    to: String,
    why: String,
}

/// A requirement that can have no meaning on these backends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotApplicable {
    id: String,
    backends: Vec<String>,
    why: String,
}

impl Catalog {
    pub(super) fn parse(json: &str) -> Result<Self> {
        let catalog: Self = serde_json::from_str(json)?;
        ensure!(!catalog.backends.is_empty(), "it names no backend");
        let is_known = |backend: &String| catalog.backends.contains(backend);
        ensure!(catalog.optional.iter().all(is_known), "an optional backend is unknown");
        for Later { from, to, why } in &catalog.later {
            ensure!(exists(from) && exists(to) && from <= to, "{from} to {to} is no range of requirements");
            ensure!(from[..3] == to[..3], "{from} and {to} are of different series");
            ensure!(!why.is_empty(), "{from} to {to} has no reason");
        }
        for NotApplicable { id, backends, why } in &catalog.not_applicable {
            ensure!(exists(id), "{id} does not exist");
            ensure!(!why.is_empty(), "{id} has no reason");
            let unknown = backends.iter().find(|backend| !catalog.backends.contains(backend));
            ensure!(unknown.is_none(), "{id} names an unknown backend");
        }
        Ok(catalog)
    }

    /// Why the requirement waits for a coming release, if it does.
    pub(super) fn later(&self, id: &str) -> Option<&str> {
        let range = self.later.iter().find(|range| range.from.as_str() <= id && id <= range.to.as_str());
        range.map(|range| range.why.as_str())
    }

    /// Why the requirement has no meaning on this backend, if it has none.
    pub(super) fn not_applicable(&self, id: &str, backend: &str) -> Option<&str> {
        let applies = |entry: &&NotApplicable| entry.id == id && entry.backends.iter().any(|name| name == backend);
        self.not_applicable.iter().find(applies).map(|entry| entry.why.as_str())
    }
}

/// Every requirement, in order.
pub(super) fn requirements() -> impl Iterator<Item = String> {
    SERIES.iter().flat_map(|(series, last)| (1..=*last).map(move |number| format!("{series}-{number:03}")))
}

/// Whether a requirement has this id.
pub(super) fn exists(id: &str) -> bool {
    requirements().any(|requirement| requirement == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(later: &str, not_applicable: &str) -> Result<Catalog> {
        let json =
            format!(r#"{{"backends":["memory","sqlite"],"later":[{later}],"not_applicable":[{not_applicable}]}}"#);
        Catalog::parse(&json)
    }

    #[test]
    fn requirements_are_numbered_without_gaps() {
        let all: Vec<_> = requirements().collect();
        assert_eq!(all.len(), 237);
        assert_eq!((all[0].as_str(), all[236].as_str()), ("IBX-001", "OBX-107"));
        assert!(exists("IBX-130") && !exists("IBX-131") && !exists("OBX-108") && !exists("OBX-1"));
    }

    #[test]
    fn ranges_and_exceptions_are_found() {
        let catalog = catalog(
            r#"{"from":"OBX-066","to":"OBX-079","why":"next"}"#,
            r#"{"id":"OBX-091","backends":["memory"],"why":"no disk"}"#,
        )
        .unwrap();
        assert_eq!(catalog.later("OBX-079"), Some("next"));
        assert_eq!((catalog.later("OBX-080"), catalog.later("IBX-070")), (None, None));
        assert_eq!(catalog.not_applicable("OBX-091", "memory"), Some("no disk"));
        assert_eq!(catalog.not_applicable("OBX-091", "sqlite"), None);
    }

    #[test]
    fn a_wrong_catalog_is_refused() {
        assert!(catalog(r#"{"from":"OBX-079","to":"OBX-066","why":"next"}"#, "").is_err());
        assert!(catalog(r#"{"from":"IBX-100","to":"OBX-001","why":"next"}"#, "").is_err());
        assert!(catalog(r#"{"from":"OBX-001","to":"OBX-002","why":""}"#, "").is_err());
        assert!(catalog("", r#"{"id":"OBX-200","backends":["memory"],"why":"x"}"#).is_err());
        assert!(catalog("", r#"{"id":"OBX-001","backends":["oracle"],"why":"x"}"#).is_err());
        assert!(catalog("", r#"{"id":"OBX-001","backends":["memory"],"reason":"x"}"#).is_err());
    }

    #[test]
    fn the_catalog_of_this_repository_is_right() {
        Catalog::parse(include_str!("../../../crates/postroom-conformance/requirements.json")).unwrap();
    }
}
