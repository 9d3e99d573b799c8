//! A configuration file as a tree. Every node has its line.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value is. The position is not part of the value: two values at different positions can be equal.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Line(usize),
    Variable(String),
}

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A value and its position.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
    /// A type that no key accepts, by its name.
    Other(&'static str),
}

/// Values by name; names have a position too.
pub(super) type Table = BTreeMap<String, (At, Node)>;

impl Value {
    /// What it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "a whole number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// Reads a file. Errors name the line but not its text, which may hold a secret.
pub(super) fn parse(text: &str) -> Result<Table, Vec<(At, String)>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(self::table(table.get_ref(), &|span| At::Line(line(text, &span))));
    }
    let mut told: Vec<(At, String)> = Vec::new();
    let mut is_in_duplicate = false;
    for error in &errors {
        let number = line(text, &error.span().unwrap_or_default());
        let written = text.lines().nth(number - 1).unwrap_or_default().trim();
        let is_double = error.message() == "duplicate key";
        // The keys of a duplicate section are not further mistakes.
        if is_double && is_in_duplicate && !written.starts_with('[') {
            continue;
        }
        is_in_duplicate = is_double && written.starts_with('[');
        told.push((At::Line(number), in_words(error.message(), written)));
    }
    Err(told)
}

/// The error message for one line of a file.
fn in_words(message: &str, written: &str) -> String {
    if message == "duplicate key" {
        // Never the value.
        let name = written.split('=').next().unwrap_or_default().trim();
        let name = if name.starts_with('[') { name.to_owned() } else { format!("`{name}`") };
        return format!("{name} is already defined above; remove one of the two");
    }
    if message.starts_with("string values must be quoted") {
        return "invalid TOML: text must be in quotes, like \"30s\"".to_owned();
    }
    format!("invalid TOML: {}", message.lines().collect::<Vec<_>>().join(", "))
}

/// Reads one value in the syntax of the file.
pub(super) fn parse_value(text: &str, at: &At) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    Some(node(&value, &|_| at.clone()))
}

fn line(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

fn table(table: &DeTable<'_>, place: &dyn Fn(Range<usize>) -> At) -> Table {
    let entries = table.iter().map(|(key, value)| {
        let value = (place(key.span()), node(value, place));
        (key.get_ref().clone().into_owned(), value)
    });
    entries.collect()
}

fn node(spanned: &Spanned<DeValue<'_>>, place: &dyn Fn(Range<usize>) -> At) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Other("a number that is too large"),
        },
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(item, place)).collect()),
        DeValue::Table(entries) => Value::Table(table(entries, place)),
        DeValue::Float(_) => Value::Other("a decimal number"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { at: place(spanned.span()), value }
}
