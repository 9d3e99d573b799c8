//! The files that tidy reads.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{layers::Layers, test_code};

const SKIPPED_FOLDERS: &[&str] = &[".git", "node_modules", "target"];
/// Inputs that fuzzers made: they are data, whatever they look like.
const FUZZED: &[&str] = &["fuzz/artifacts", "fuzz/corpus", "fuzz/coverage", "fuzz/found"];
const LARGEST_FILE: u64 = 1 << 20;

/// A text file of the repository. Its path is relative to the root and written with `/`.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    /// The parts of the text, for Rust files.
    pub(super) rust: Option<Rust>,
}

/// A Rust file, split into code, strings and comments.
pub(super) struct Rust {
    pub(super) layers: Layers,
    test_lines: Vec<bool>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs").then(|| Rust::new(path, text));
        Self { path: path.to_owned(), text: text.to_owned(), rust }
    }

    pub(super) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl Rust {
    fn new(path: &str, text: &str) -> Self {
        let layers = Layers::of(text);
        let test_lines = if test_code::is_test_file(path) {
            vec![true; text.lines().count()]
        } else {
            test_code::test_lines(&layers.code)
        };
        Self { layers, test_lines }
    }

    /// Returns whether the line, counted from 1, belongs to a test module or a test file.
    pub(super) fn is_test(&self, line: usize) -> bool {
        line.checked_sub(1).and_then(|index| self.test_lines.get(index)).copied().unwrap_or(false)
    }

    /// Returns the lines of code with their numbers; comments and strings are blanked out.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.layers.code)
    }
}

/// Returns the lines, counted from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// Returns whether `line` contains `word`, but not as the end of a longer identifier.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(is_identifier))
}

pub(super) fn is_identifier(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Reads every text file under `root`. Files that are large or not UTF-8 are data and have no style.
pub(super) fn read_tree(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    read_folder(root, "", &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn read_folder(folder: &Path, prefix: &str, sources: &mut Vec<Source>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && (SKIPPED_FOLDERS.contains(&name.as_str()) || FUZZED.contains(&path.as_str())) {
            continue;
        }
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), sources)?;
        } else if kind.is_file() && entry.metadata()?.len() <= LARGEST_FILE {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            sources.extend(String::from_utf8(bytes).ok().map(|text| Source::new(&path, &text)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_they_begin() {
        assert!(has_word("thread::sleep(d)", "sleep("));
        assert!(!has_word("never_sleep(d)", "sleep("));
    }

    #[test]
    fn tree_holds_text_and_skips_builds() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("target")).unwrap();
        fs::create_dir_all(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("target/out.rs"), "").unwrap();
        fs::create_dir_all(folder.path().join("fuzz/corpus")).unwrap();
        fs::write(folder.path().join("fuzz/corpus/1"), "").unwrap();
        fs::write(folder.path().join("src/lib.rs"), "//! Doc.").unwrap();
        fs::write(folder.path().join("data"), [0xff, 0xfe]).unwrap();
        let paths: Vec<_> = read_tree(folder.path()).unwrap().into_iter().map(|source| source.path).collect();
        assert_eq!(paths, ["src/lib.rs"]);
    }
}
