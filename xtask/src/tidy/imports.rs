//! Which module of the library may import which: the table, and the check.

use super::{
    Violation,
    source::{Source, is_identifier},
    test_code::{closing_brace, line_of},
};

const LIBRARY: &str = "crates/postroom/src/";

enum May {
    ImportOnly(&'static [&'static str]),
    NeverImport(&'static [&'static str]),
}

const PURE: May = May::ImportOnly(&["message", "queue", "retry", "clock", "error"]);

/// A module at the root of the library, with all that lies in its folder, and what it may import.
const RULES: &[(&str, May)] = &[
    ("queue", PURE),
    ("retry", PURE),
    ("clock", PURE),
    ("worker", May::NeverImport(&["sql", "driver", "tenancy"])),
    ("tenancy", May::NeverImport(&["sql", "driver", "sqlite"])),
    ("driver", May::NeverImport(&["worker", "handler", "dispatcher"])),
    ("sql", May::NeverImport(&["store", "driver", "worker"])),
];

/// Tests may import anything: they put the modules together.
pub(super) fn forbidden_imports(source: &Source) -> Vec<Violation> {
    let (Some(rust), Some(path)) = (&source.rust, source.path.strip_prefix(LIBRARY)) else {
        return Vec::new();
    };
    let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    let Some((_, rule)) = RULES.iter().find(|(name, _)| *name == module) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    for (line, imported) in imports(&rust.layers.code, path) {
        if let Some(why) = rule.refuses(imported).filter(|_| !rust.is_test(line)) {
            let advice = format!("`{module}` {why}, and this is `{imported}`: turn the dependency around");
            violations.push(Violation::new(source, line, "import", advice));
        }
    }
    violations
}

impl May {
    fn refuses(&self, imported: &str) -> Option<String> {
        match self {
            May::ImportOnly(allowed) if !allowed.contains(&imported) => {
                Some(format!("imports only {}", allowed.join(", ")))
            }
            May::NeverImport(refused) if refused.contains(&imported) => {
                Some(format!("never imports {}", refused.join(", ")))
            }
            _ => None,
        }
    }
}

/// Line and first name of each path that starts at the root of the library.
fn imports<'a>(code: &'a str, path: &str) -> Vec<(usize, &'a str)> {
    // `super::` as often as the file lies deep is another way to write `crate::`.
    let depth = path.trim_end_matches("/mod.rs").split('/').count();
    let mut found = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (start, _) in code.match_indices(&root) {
            let before = &code[..start];
            if !before.ends_with(is_identifier) && !before.ends_with("::") {
                let names = first_names(code, start + root.len());
                found.extend(names.into_iter().map(|(at, name)| (line_of(code, at), name)));
            }
        }
    }
    found
}

/// The name at `at`, or the first name of each path of a `{…}` group there.
fn first_names(code: &str, at: usize) -> Vec<(usize, &str)> {
    if !code[at..].starts_with('{') {
        return vec![(at, name_at(code, at))];
    }
    let end = closing_brace(code, at).unwrap_or(code.len());
    let mut names = Vec::new();
    let (mut depth, mut expected) = (0_usize, false);
    for (offset, character) in code[at..end].char_indices() {
        match character {
            '{' => (depth, expected) = (depth + 1, depth == 0),
            '}' => depth = depth.saturating_sub(1),
            ',' => expected = depth == 1,
            _ if expected && !character.is_whitespace() => {
                names.push((at + offset, name_at(code, at + offset)));
                expected = false;
            }
            _ => {}
        }
    }
    names
}

fn name_at(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    let length = rest.find(|character| !is_identifier(character)).unwrap_or(rest.len());
    if length == 0 { rest.get(..1).unwrap_or(rest) } else { &rest[..length] }
}

#[cfg(test)]
mod tests;
