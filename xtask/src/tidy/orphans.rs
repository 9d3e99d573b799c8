//! Rule: every Rust file is part of a crate. It is a root, or a `mod` line of another such file names it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Violation,
    source::{Source, is_identifier, numbered},
    test_code::closing_brace,
};

pub(super) fn orphan_files(sources: &[Source]) -> Vec<Violation> {
    let files: BTreeMap<_, _> = sources.iter().filter(|s| s.rust.is_some()).map(|s| (s.path.as_str(), s)).collect();
    let mut waiting: Vec<_> = sources.iter().flat_map(declared_roots).collect();
    waiting.extend(files.keys().filter(|path| is_root(path)).map(|path| (*path).to_owned()));
    let roots: BTreeSet<_> = waiting.iter().cloned().collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if let Some(source) = files.get(path.as_str()).filter(|_| !reached.contains(&path)) {
            waiting.extend(modules_of(source, roots.contains(&path)));
            reached.insert(path);
        }
    }
    let orphans = files.values().filter(|source| !reached.contains(&source.path));
    let advice = "no `mod` line leads here: add one or delete the file";
    orphans.map(|source| Violation::new(source, 1, "orphan-file", advice)).collect()
}

/// Returns whether cargo finds the file by itself.
fn is_root(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts.as_slice() {
        [.., "src", "lib.rs" | "main.rs"] | [.., "src", "bin", _] | [.., "src", "bin", _, "main.rs"] => true,
        [above @ .., "build.rs"]
        | [above @ .., "tests" | "benches" | "examples", _]
        | [above @ .., "tests" | "benches" | "examples", _, "main.rs"] => !above.contains(&"src"),
        // These are programs that a test passes to the compiler.
        [above @ .., "tests", "pass" | "fail", _] | [above @ .., "tests", "fail", "messages", _] => {
            !above.contains(&"src")
        }
        _ => false,
    }
}

/// Returns the `path = "….rs"` lines of a `Cargo.toml`.
fn declared_roots(source: &Source) -> Vec<String> {
    if source.file_name() != "Cargo.toml" {
        return Vec::new();
    }
    let values = numbered(&source.text).filter_map(|(_, line)| quoted(line.trim().strip_prefix("path")?));
    values.filter(|path| path.ends_with(".rs")).map(|path| join(folder(&source.path), path)).collect()
}

/// Returns the files that the `mod` lines of `source` may mean, and those that a `#[path = "…"]` names.
fn modules_of(source: &Source, is_root: bool) -> Vec<String> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let above = folder(&source.path);
    let stem = source.file_name().trim_end_matches(".rs");
    let own = if is_root || stem == "mod" { above.to_owned() } else { join(above, stem) };
    let forms =
        modules(&rust.layers.code).into_iter().flat_map(|path| [format!("{path}.rs"), format!("{path}/mod.rs")]);
    let named = rust.code_lines().filter(|(_, code)| code.contains("path = ")).map(|(line, _)| line);
    let named = named.filter_map(|line| quoted(source.text.lines().nth(line - 1)?.split_once("path = ")?.1));
    forms.map(|form| join(&own, &form)).chain(named.map(|path| join(above, path))).collect()
}

/// Returns the path of each `mod name;`, with the names of the inline modules around it.
fn modules(code: &str) -> Vec<String> {
    let mut around: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::new();
    for (start, keyword) in code.match_indices("mod ") {
        around.retain(|(end, _)| *end > start);
        let after = code[start + keyword.len()..].trim_start();
        let length = after.find(|character| !is_identifier(character)).unwrap_or(after.len());
        let (name, rest) = after.split_at(length);
        if length == 0 || code[..start].ends_with(is_identifier) {
            continue;
        }
        if rest.trim_start().starts_with(';') {
            let mut path: Vec<_> = around.iter().map(|(_, name)| *name).collect();
            path.push(name);
            found.push(path.join("/"));
        } else if let Some(open) = code[start..].find('{') {
            around.extend(closing_brace(code, start + open).map(|end| (end, name)));
        }
    }
    found
}

/// Returns the text between the first two quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins paths and resolves `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
