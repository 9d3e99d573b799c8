//! Rule: everything that the library exports has an example in its documentation.

use super::{
    Violation,
    source::{Source, is_identifier, numbered},
    test_code::line_of,
};

/// The files that export, each with the folder of its modules.
const DOORS: &[(&str, &str)] = &[
    ("crates/postroom-core/src/lib.rs", "crates/postroom-core/src"),
    ("crates/postroom-core/src/db/doctor.rs", "crates/postroom-core/src/db/doctor"),
    ("crates/postroom-core/src/telemetry.rs", "crates/postroom-core/src/telemetry"),
    ("crates/postroom-core/src/testing.rs", "crates/postroom-core/src/testing"),
    ("crates/postroom-services/src/lib.rs", "crates/postroom-services/src"),
    ("crates/postroom-idempotent/src/lib.rs", "crates/postroom-idempotent/src"),
];
/// The examples of the macros are in their own crate, and are compiled there.
const MACROS: &str = "postroom_macros";
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "fn", "type", "const", "union", "static"];
/// The words that may follow three backticks at the start of a compiled example.
const COMPILED: &[&str] = &["", "rust", "no_run", "should_panic", "compile_fail"];

pub(super) fn missing_examples(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, folder) in DOORS {
        let Some(door) = sources.iter().find(|source| source.path == *path) else { continue };
        violations.extend(declared(door).filter(|line| lacks_example(door, *line)).map(|line| missing(door, line)));
        for export in exports(door, folder) {
            let within = sources.iter().filter(|source| export.may_stand_in(&source.path));
            let found = within.filter_map(|source| Some((source, declaration(source, &export.name)?))).next();
            let is_module = sources.iter().any(|source| source.path == format!("{}/{}.rs", export.module, export.name));
            match found {
                _ if is_module => {}
                Some((source, line)) if lacks_example(source, line) => violations.push(missing(source, line)),
                Some(_) => {}
                None => {
                    let advice = format!("no declaration of `{}` was found under {}", export.name, export.module);
                    violations.push(Violation::new(door, export.line, "missing-example", advice));
                }
            }
        }
    }
    violations
}

fn missing(source: &Source, line: usize) -> Violation {
    let advice = "this is exported: show in a ``` block of its documentation what it is for";
    Violation::new(source, line, "missing-example", advice)
}

/// A name that one of these files exports with `pub use`.
struct Export {
    /// The name in the declaration, whatever it is exported as.
    name: String,
    /// The file of the module it comes from, without `.rs`.
    module: String,
    line: usize,
}

impl Export {
    fn may_stand_in(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.module.as_str());
        below.is_some_and(|below| below == ".rs" || below.starts_with('/') && below.ends_with(".rs"))
    }
}

fn exports(door: &Source, folder: &str) -> Vec<Export> {
    let Some(rust) = &door.rust else { return Vec::new() };
    let code = &rust.layers.code;
    let mut exports = Vec::new();
    for (start, keyword) in code.match_indices("\npub use ") {
        let (at, line) = (start + keyword.len(), line_of(code, start + 1));
        let path = code[at..].split(';').next().unwrap_or_default();
        let (from, names) = path.split_once('{').or_else(|| path.rsplit_once("::")).unwrap_or(("", path));
        let from = from.trim_end_matches("::");
        if from == MACROS || block(door, line).any(|(_, text)| is_hidden(text)) {
            continue;
        }
        let module = match from.strip_prefix("crate::") {
            Some(rest) => format!("{}/{}", sources_of(folder), rest.replace("::", "/")),
            None => format!("{folder}/{}", from.replace("::", "/")),
        };
        let names = names.split([',', '}']).filter_map(|name| name.split_whitespace().next());
        exports.extend(names.map(|name| Export { name: name.to_owned(), module: module.clone(), line }));
    }
    exports
}

/// Returns the folder of the crate's sources that contains `folder`.
fn sources_of(folder: &str) -> &str {
    folder.find("/src").map_or(folder, |at| &folder[..at + "/src".len()])
}

/// Returns the lines of the public items that the exporting file declares itself.
fn declared(door: &Source) -> impl Iterator<Item = usize> {
    let lines = door.rust.iter().flat_map(|rust| rust.code_lines());
    lines.filter(|(_, code)| declared_name(code).is_some()).map(|(line, _)| line)
}

/// Returns the line that declares `name`: an item, or a separate line that a macro turns into one.
fn declaration(source: &Source, name: &str) -> Option<usize> {
    let rust = source.rust.as_ref()?;
    let is_made_by_macro =
        |line: usize, code: &str| code.trim() == name && block(source, line).any(|(_, text)| text.starts_with("///"));
    let mut lines = rust.code_lines().filter(|(line, _)| !rust.is_test(*line));
    lines.find(|(line, code)| declared_name(code) == Some(name) || is_made_by_macro(*line, code)).map(|(line, _)| line)
}

/// Returns the name of the public item that begins in this line, at the top level.
fn declared_name(code: &str) -> Option<&str> {
    let mut words = code.strip_prefix("pub ")?.split(' ').skip_while(|word| ["async", "unsafe"].contains(word));
    let (mut keyword, mut name) = (words.next()?, words.next()?);
    if (keyword, name) == ("const", "fn") {
        (keyword, name) = (name, words.next()?);
    }
    let name = &name[..name.find(|character| !is_identifier(character)).unwrap_or(name.len())];
    KEYWORDS.contains(&keyword).then_some(name)
}

fn lacks_example(source: &Source, line: usize) -> bool {
    let above: Vec<_> = block(source, line).map(|(_, text)| text).collect();
    let fences = above.iter().rev().filter_map(|text| text.strip_prefix("/// ```"));
    // Every second fence closes the one before it.
    let has_example = fences.step_by(2).any(|words| words.split(',').all(|word| COMPILED.contains(&word.trim())));
    !has_example && !above.iter().any(|text| is_hidden(text))
}

fn is_hidden(text: &str) -> bool {
    text.starts_with("#[doc(hidden)]")
}

/// Returns the attributes and comments directly above a line, from the bottom up.
fn block(source: &Source, line: usize) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<_> = numbered(&source.text).take(line - 1).map(|(line, text)| (line, text.trim())).collect();
    let belongs = |text: &str| text.starts_with("//") || !(text.is_empty() || text.ends_with(['{', '}', ';']));
    lines.into_iter().rev().take_while(move |(_, text)| belongs(text))
}

#[cfg(test)]
mod tests;
