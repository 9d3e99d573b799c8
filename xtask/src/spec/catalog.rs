//! The requirements: numbered ones, and sections of documents; and those that do not apply to every backend.

use std::fmt::{self, Display, Formatter};

use anyhow::{Result, ensure};
use serde::Deserialize;

/// The inbox and outbox specifications number these requirements themselves.
const SERIES: &[(&str, u16)] = &[("IBX", 130), ("OBX", 107)];

/// The content of `requirements.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    pub(super) backends: Vec<String>,
    /// Backends that need a proof only if they were tested.
    #[serde(default)]
    pub(super) optional: Vec<String>,
    later: Vec<Later>,
    not_applicable: Vec<NotApplicable>,
    /// Requirements of the SQLite document (SQM), the API reference (API) and the plan of the inbox pattern (PLN), by
    /// section.
    #[serde(default)]
    sections: Vec<Section>,
}

/// The requirement of a section of a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    id: String,
    pub(super) asks: String,
    /// The backends that need a proof; all of them by default.
    on: Option<Vec<String>>,
    /// What is done instead, and why. The tests prove that.
    pub(super) differs: Option<String>,
    /// Tests outside the matrix that prove it.
    #[serde(default)]
    pub(super) tests: Vec<TestName>,
}

/// A test outside the matrix, such as `postroom-server/it: node::a_webhook_comes_in_and_is_handled`. The target is
/// `lib`, `bin` or the name of an integration test.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
pub(super) struct TestName {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) name: String,
}

impl TryFrom<String> for TestName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once(": ").and_then(|(place, name)| Some((place.split_once('/')?, name)));
        let ((package, target), name) = parts.ok_or_else(|| format!("`{text}` is not PACKAGE/TARGET: TEST"))?;
        Ok(Self { package: package.to_owned(), target: target.to_owned(), name: name.to_owned() })
    }
}

impl Display for TestName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {}", self.package, self.target, self.name)
    }
}

/// Requirements of a coming release, including the last one of the range.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    from: String,
    to: String,
    why: String,
}

/// A requirement that has no meaning on these backends.
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
            let is_numbered = |id: &String| numbered().any(|number| number == *id);
            ensure!(is_numbered(from) && is_numbered(to) && from <= to, "{from} to {to} is no range of requirements");
            ensure!(from[..3] == to[..3], "{from} and {to} are of different series");
            ensure!(!why.is_empty(), "{from} to {to} has no reason");
        }
        for NotApplicable { id, backends, why } in &catalog.not_applicable {
            ensure!(catalog.exists(id), "{id} does not exist");
            ensure!(!why.is_empty(), "{id} has no reason");
            let unknown = backends.iter().find(|backend| !catalog.backends.contains(backend));
            ensure!(unknown.is_none(), "{id} names an unknown backend");
        }
        for (place, Section { id, asks, on, differs, tests }) in catalog.sections.iter().enumerate() {
            ensure!(is_section(id), "{id} is no section: SQM, API or PLN, and its numbers");
            ensure!(catalog.sections[..place].iter().all(|other| other.id != *id), "{id} is there twice");
            ensure!(!asks.is_empty() && differs.as_ref().is_none_or(|why| !why.is_empty()), "{id} says nothing");
            let on = on.as_ref().unwrap_or(&catalog.backends);
            ensure!(on.iter().all(|backend| catalog.backends.contains(backend)), "{id} names an unknown backend");
            ensure!(!on.is_empty() || !tests.is_empty(), "{id} asks for no proof");
        }
        // Their names must differ, because the output shows only the names.
        let others = |test: &TestName| catalog.tests().any(|(other, _)| other.name == test.name && other != test);
        let twice = catalog.tests().map(|(test, _)| test).find(|test| others(test));
        ensure!(twice.is_none(), "{} has the name of another test", twice.map(TestName::to_string).unwrap_or_default());
        Ok(catalog)
    }

    /// Returns every requirement, in order.
    pub(super) fn requirements(&self) -> impl Iterator<Item = String> {
        numbered().chain(self.sections.iter().map(|section| section.id.clone()))
    }

    /// Returns whether a requirement has this id.
    pub(super) fn exists(&self, id: &str) -> bool {
        self.requirements().any(|requirement| requirement == id)
    }

    /// Returns the section of a document that the requirement is, if any.
    pub(super) fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// Returns every test outside the matrix, with the requirement that it proves.
    pub(super) fn tests(&self) -> impl Iterator<Item = (&TestName, &str)> {
        self.sections.iter().flat_map(|section| section.tests.iter().map(|test| (test, section.id.as_str())))
    }

    /// Returns the backends on which the requirement must be proven.
    pub(super) fn owing(&self, id: &str) -> impl Iterator<Item = &String> {
        let on = self.section(id).and_then(|section| section.on.as_ref()).unwrap_or(&self.backends);
        on.iter().filter(move |backend| self.not_applicable(id, backend).is_none())
    }

    /// Returns why the requirement waits for a coming release, if it does.
    pub(super) fn later(&self, id: &str) -> Option<&str> {
        let range = self.later.iter().find(|range| range.from.as_str() <= id && id <= range.to.as_str());
        range.map(|range| range.why.as_str())
    }

    /// Returns why the requirement has no meaning on this backend, if that is so.
    pub(super) fn not_applicable(&self, id: &str, backend: &str) -> Option<&str> {
        let applies = |entry: &&NotApplicable| entry.id == id && entry.backends.iter().any(|name| name == backend);
        self.not_applicable.iter().find(applies).map(|entry| entry.why.as_str())
    }
}

fn numbered() -> impl Iterator<Item = String> {
    SERIES.iter().flat_map(|(series, last)| (1..=*last).map(move |number| format!("{series}-{number:03}")))
}

/// Returns whether an id names a section, such as `SQM-3.4.1`: the document, and the numbers of the section.
fn is_section(id: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    id.split_once('-').is_some_and(|(document, section)| {
        ["SQM", "API", "PLN"].contains(&document) && section.split('.').all(is_number)
    })
}

#[cfg(test)]
mod tests;
