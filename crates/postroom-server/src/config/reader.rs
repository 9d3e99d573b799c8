//! Reads the keys of a configuration from the environment or the file, and collects every mistake.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::nearest::{nearest, within};
use super::secrets::{SecretRef, ValueSource};
use super::tree::{self, At, Node, Table, Value};
use crate::duration;
use crate::problem::Problem;

/// The prefix of all our variables.
pub(super) const PREFIX: &str = "POSTROOM_";

/// A variable that differs by more letters belongs to something else, because some systems inject their own variables.
const SLIPS_MAX: usize = 2;

/// Every mistake in a configuration.
#[derive(Debug)]
pub(crate) struct Mistakes(Vec<String>);

impl Mistakes {
    pub(super) fn new(mut mistakes: Vec<(At, String)>, file: &str) -> Self {
        mistakes.sort_by_key(|(at, _)| match at {
            At::Line(line) => *line,
            At::Variable(_) => usize::MAX,
        });
        let lines = mistakes.into_iter().map(|(at, what)| match at {
            At::Line(_) if file.is_empty() => what,
            At::Line(line) => format!("{file}:{line}: {what}"),
            At::Variable(name) => format!("{name}: {what}"),
        });
        Self(lines.collect())
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl From<Mistakes> for anyhow::Error {
    fn from(mistakes: Mistakes) -> Self {
        let what = match mistakes.0.as_slice() {
            [one] => one.clone(),
            all => format!("the configuration has {} mistakes:\n{mistakes}", all.len()),
        };
        Problem::new(what, "`postroom config print`, which lists every key with its default").into()
    }
}

/// Reads a file and the environment.
pub(super) struct Reader {
    environment: BTreeMap<String, String>,
    /// Variables that set a key, and variables that hold secrets.
    known: RefCell<BTreeSet<String>>,
    secrets: RefCell<BTreeSet<String>>,
    mistakes: RefCell<Vec<(At, String)>>,
}

impl Reader {
    pub(super) fn new(environment: BTreeMap<String, String>) -> Self {
        Self { environment, known: RefCell::default(), secrets: RefCell::default(), mistakes: RefCell::default() }
    }

    pub(super) fn mistake(&self, at: &At, what: impl Into<String>) {
        self.mistakes.borrow_mut().push((at.clone(), what.into()));
    }

    /// One section of the file; empty if the file does not have it.
    pub(super) fn section<'r>(&'r self, root: &mut Table, name: &str) -> Section<'r> {
        let found = root.remove(name).map(|(at, node)| (at, self.table(&format!("[{name}]"), node)));
        let (at, table) = found.unwrap_or((At::Line(1), Table::new()));
        self.open(format!("[{name}]"), variable(&[name]), at, table)
    }

    /// The sections `[name.KEY]` of the file, by `KEY`.
    pub(super) fn sections<'r>(&'r self, root: &mut Table, name: &str) -> Vec<(String, Section<'r>)> {
        let Some((_, node)) = root.remove(name) else { return Vec::new() };
        let entries = self.table(&format!("[{name}]"), node).into_iter().map(|(key, (at, node))| {
            let title = if is_bare(&key) { format!("[{name}.{key}]") } else { format!("[{name}.{key:?}]") };
            let table = self.table(&title, node);
            let prefix = variable(&[name, &key]);
            (key, self.open(title, prefix, at, table))
        });
        entries.collect()
    }

    fn open(&self, title: String, prefix: String, at: At, table: Table) -> Section<'_> {
        Section { reader: self, title, prefix, at, table, known: Vec::new(), found: Vec::new() }
    }

    fn table(&self, title: &str, node: Node) -> Table {
        match node.value {
            Value::Table(table) => table,
            other => {
                self.mistake(&node.at, format!("{title} must be a section, not {}", other.kind()));
                Table::new()
            }
        }
    }

    /// Reports the sections that are left over once every known section was read.
    pub(super) fn unknown_sections(&self, root: &Table, known: &[&str]) {
        for (name, (at, _)) in root {
            let meant = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean [{meant}]?"),
                None => format!("the sections are {}", known.map_joined(|name| format!("[{name}]"))),
            };
            self.mistake(at, format!("unknown section [{name}]; {meant}"));
        }
    }

    /// The variables that set a key, as far as read.
    #[cfg(test)]
    pub(super) fn known(&self) -> BTreeSet<String> {
        self.known.borrow().clone()
    }

    /// Returns every mistake. A variable that nearly matches a key is a mistake too; others are ignored.
    pub(super) fn finish(self, file: &str) -> Result<(), Mistakes> {
        let (known, secrets) = (self.known.into_inner(), self.secrets.into_inner());
        let mut mistakes = self.mistakes.into_inner();
        for name in self.environment.keys().filter(|name| !known.contains(*name) && !secrets.contains(*name)) {
            if let Some(meant) = within(name, known.iter().map(String::as_str), SLIPS_MAX) {
                let at = At::Variable(name.clone());
                mistakes.push((at, format!("this variable sets no key; did you mean `{meant}`?")));
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(Mistakes::new(mistakes, file)) }
    }
}

/// The keys of one section.
pub(super) struct Section<'r> {
    reader: &'r Reader,
    pub(super) title: String,
    prefix: String,
    pub(super) at: At,
    table: Table,
    known: Vec<&'static str>,
    found: Vec<(&'static str, At)>,
}

impl Section<'_> {
    pub(super) fn mistake(&self, at: &At, what: impl fmt::Display) {
        self.reader.mistake(at, what.to_string());
    }

    /// The value of a key: the environment's, or the file's.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Node> {
        self.known.push(key);
        let in_file = self.table.remove(key).map(|(_, node)| node);
        let name = format!("{}_{}", self.prefix, variable_part(key));
        let in_environment = self.reader.environment.get(&name).cloned();
        self.reader.known.borrow_mut().insert(name.clone());
        let of_environment = |text| Node { at: At::Variable(name), value: Value::Text(text) };
        let node = in_environment.map(of_environment).or(in_file)?;
        self.found.push((key, node.at.clone()));
        Some(node)
    }

    /// The position of a key that was read, whether or not its value was valid.
    pub(super) fn place_of(&self, key: &str) -> Option<At> {
        self.found.iter().find(|(found, _)| *found == key).map(|(_, at)| at.clone())
    }

    pub(super) fn wrong(&self, key: &str, node: &Node, wanted: &str) {
        let found = match &node.at {
            At::Line(_) => format!(", not {}", node.value.kind()),
            At::Variable(_) => String::new(),
        };
        self.mistake(&node.at, format!("`{key}` in {} must be {wanted}{found}", self.title));
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<(String, At)> {
        let node = self.take(key)?;
        match node.value {
            Value::Text(text) => Some((text, node.at)),
            _ => {
                self.wrong(key, &node, "text in quotes");
                None
            }
        }
    }

    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.take(key)?;
        let number = match (&node.value, &node.at) {
            (Value::Number(number), _) => i128::from(*number),
            (Value::Text(text), At::Variable(_)) if text.trim().parse::<i64>().is_ok() => {
                text.trim().parse().unwrap_or_default()
            }
            _ => {
                self.wrong(key, &node, "a whole number");
                return None;
            }
        };
        let inside = u64::try_from(number).ok().filter(|number| range.contains(number));
        if inside.is_none() {
            let (least, most) = (range.start(), range.end());
            self.mistake(&node.at, format!("`{key}` in {} must be from {least} to {most}, not {number}", self.title));
        }
        inside
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let node = self.take(key)?;
        match (&node.value, &node.at) {
            (Value::Flag(flag), _) => Some(*flag),
            (Value::Text(text), At::Variable(_)) if text == "true" || text == "false" => Some(text == "true"),
            _ => {
                self.wrong(key, &node, "true or false");
                None
            }
        }
    }

    /// A duration from `least` to `most`.
    pub(super) fn span(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let node = self.take(key)?;
        let Value::Text(text) = &node.value else {
            self.wrong(key, &node, "a duration in quotes, like \"10s\"");
            return None;
        };
        let why = match duration::parse(text) {
            Ok(span) if range.contains(&span) => return Some(span),
            Ok(_) => {
                let (least, most) = (duration::short(*range.start()), duration::short(*range.end()));
                format!("it must be from {least} to {most}, not {text}")
            }
            Err(why) => why,
        };
        self.mistake(&node.at, format!("`{key}` in {}: {why}", self.title));
        None
    }

    /// A list of texts; a single text needs no brackets.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<(String, At)>> {
        let node = self.take(key)?;
        let nodes = match node.value {
            Value::Text(text) if matches!(node.at, At::Variable(_)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                return Some(items.map(|item| (item.to_owned(), node.at.clone())).collect());
            }
            Value::List(nodes) => nodes,
            value => vec![Node { at: node.at, value }],
        };
        let mut texts = Vec::new();
        for node in nodes {
            match node.value {
                Value::Text(text) => texts.push((text, node.at)),
                _ => self.wrong(key, &node, "a list of texts"),
            }
        }
        Some(texts)
    }

    /// A text, or the place of a text that may be a secret.
    pub(super) fn text_or_place(&mut self, key: &'static str) -> Option<(ValueSource, At)> {
        let node = self.take(key)?;
        match node.value {
            Value::Text(text) => Some((ValueSource::Here(text), node.at)),
            Value::Table(table) => {
                let place = self.place(&format!("`{key}`"), &node.at, table)?;
                Some((place, node.at))
            }
            _ => {
                self.wrong(key, &node, "text in quotes, { env = \"VARIABLE\" } or { file = \"PATH\" }");
                None
            }
        }
    }

    /// One secret, or several.
    pub(super) fn secrets(&mut self, key: &'static str) -> Vec<SecretRef> {
        let Some(node) = self.take(key).and_then(|node| self.structured(key, node)) else { return Vec::new() };
        let nodes = match node.value {
            Value::List(nodes) => nodes,
            value => vec![Node { at: node.at, value }],
        };
        nodes.into_iter().filter_map(|node| self.secret(&format!("`{key}`"), node)).collect()
    }

    /// Parses a table from the environment in the syntax of the file.
    pub(super) fn structured(&self, key: &str, node: Node) -> Option<Node> {
        let (At::Variable(_), Value::Text(text)) = (&node.at, &node.value) else { return Some(node) };
        let parsed = tree::parse_value(text, &node.at);
        if parsed.is_none() {
            self.wrong(key, &node, "in the syntax of the file, like { env = \"VARIABLE\" }");
        }
        parsed
    }

    pub(super) fn secret(&self, what: &str, node: Node) -> Option<SecretRef> {
        match node.value {
            Value::Table(table) => {
                let place = self.place(what, &node.at, table)?;
                Some(SecretRef { place, at: node.at, of: format!("{what} in {}", self.title) })
            }
            // The message never repeats the value.
            _ => {
                self.mistake(
                    &node.at,
                    format!(
                        "{what} in {} is a secret and must not be in this file; write {{ env = \"VARIABLE\" }} or \
                         {{ file = \"PATH\" }}, and replace the secret, because others may have read it here",
                        self.title
                    ),
                );
                None
            }
        }
    }

    fn place(&self, what: &str, at: &At, mut table: Table) -> Option<ValueSource> {
        let mut text = |name| match table.remove(name).map(|(_, node)| node.value) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let place = match (text("env"), text("file")) {
            (Some(variable), None) => Some(ValueSource::Variable(variable)),
            (None, Some(path)) => Some(ValueSource::File(path.into())),
            _ => None,
        };
        let place = place.filter(|_| table.is_empty());
        match &place {
            None => self.mistake(
                at,
                format!("{what} in {} needs either {{ env = \"VARIABLE\" }} or {{ file = \"PATH\" }}", self.title),
            ),
            Some(ValueSource::Variable(variable)) => {
                self.reader.secrets.borrow_mut().insert(variable.clone());
            }
            Some(_) => {}
        }
        place
    }

    /// Reports the unknown keys of the section.
    pub(super) fn finish(self) {
        for (key, (at, _)) in &self.table {
            let meant = match nearest(key, self.known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("its keys are {}", self.known.as_slice().map_joined(|key| format!("`{key}`"))),
            };
            self.mistake(at, format!("unknown key `{key}` in {}; {meant}", self.title));
        }
    }
}

/// The name of the environment variable for these names in the file.
fn variable(names: &[&str]) -> String {
    let parts: Vec<_> = names.iter().map(|name| variable_part(name)).collect();
    format!("{PREFIX}{}", parts.join("_"))
}

fn variable_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

fn is_bare(key: &str) -> bool {
    key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

trait Joined {
    fn map_joined(&self, told: impl Fn(&str) -> String) -> String;
}

impl Joined for [&str] {
    fn map_joined(&self, told: impl Fn(&str) -> String) -> String {
        self.iter().map(|name| told(name)).collect::<Vec<_>>().join(", ")
    }
}
