//! Rule: files and lines stay short.

use super::{
    Violation,
    source::{Source, numbered},
};

const LONGEST_FILE: usize = 400;
const LONGEST_LINE: usize = 120;

/// Finds files that are too long. Tests do not count, because they may be beside what they test.
pub(super) fn long_files(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let lines = rust.code_lines().filter(|(line, _)| !rust.is_test(*line)).count();
    if lines <= LONGEST_FILE {
        return Vec::new();
    }
    let advice = format!("{lines} lines without tests, at most {LONGEST_FILE}: split it");
    vec![Violation::new(source, 1, "long-file", advice)]
}

pub(super) fn long_lines(source: &Source) -> Vec<Violation> {
    if source.rust.is_none() {
        return Vec::new();
    }
    let columns = numbered(&source.text).map(|(line, text)| (line, text.chars().count()));
    let long = columns.filter(|(_, columns)| *columns > LONGEST_LINE);
    let advice = |columns| format!("{columns} columns, at most {LONGEST_LINE}: break it");
    long.map(|(line, columns)| Violation::new(source, line, "long-line", advice(columns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_refused() {
        let found = long_files(&Source::new("src/a.rs", &"a();\n".repeat(LONGEST_FILE + 1)));
        assert_eq!(found.len(), 1);
        assert!(found[0].advice.starts_with("401 lines"), "{}", found[0].advice);
    }

    #[test]
    fn tests_do_not_lengthen_a_file() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "a();\n".repeat(LONGEST_FILE));
        assert!(long_files(&Source::new("src/a.rs", &format!("a();\n{tests}"))).is_empty());
        assert!(long_files(&Source::new("tests/a.rs", &"a();\n".repeat(LONGEST_FILE + 1))).is_empty());
        assert!(long_files(&Source::new("a.md", &"a\n".repeat(LONGEST_FILE + 1))).is_empty());
    }

    #[test]
    fn a_long_line_is_refused() {
        let text = format!("a();\n// {}\n", "é".repeat(LONGEST_LINE));
        let found = long_lines(&Source::new("src/a.rs", &text));
        assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn columns_are_characters_and_only_rust_counts() {
        assert!(long_lines(&Source::new("src/a.rs", &"é".repeat(LONGEST_LINE))).is_empty());
        assert!(long_lines(&Source::new("a.md", &"a".repeat(LONGEST_LINE + 1))).is_empty());
    }
}
