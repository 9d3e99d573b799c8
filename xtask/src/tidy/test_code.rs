//! Finds the lines that are tests: whole files, and `#[cfg(test)]` modules in others.

pub(super) const TEST_ATTRIBUTES: &[&str] = &["#[cfg(test)]", "#[cfg(all(test,"];

/// Returns whether the whole file contains tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Returns, for each line of `code`, whether it is in a test module.
pub(super) fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count()];
    for attribute in TEST_ATTRIBUTES {
        for (start, _) in code.match_indices(attribute) {
            let Some(end) = end_of_module(code, start) else {
                continue;
            };
            let (first, last) = (line_of(code, start), line_of(code, end));
            lines.iter_mut().take(last).skip(first - 1).for_each(|line| *line = true);
        }
    }
    lines
}

/// Returns the line of a byte, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the position of the brace that closes the one at `open`.
pub(super) fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in code[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

/// Returns the end of the module that the attribute at `start` belongs to, or `None` if it belongs to something else.
fn end_of_module(code: &str, start: usize) -> Option<usize> {
    let open = start + code[start..].find('{')?;
    let head = &code[start..open];
    let is_module = !head.contains(';') && head.split_whitespace().rev().nth(1) == Some("mod");
    if is_module { closing_brace(code, open) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_found() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(test_lines(code), [false, true, true, true, true, false]);
    }

    #[test]
    fn other_test_items_and_files_elsewhere_are_not_modules() {
        assert_eq!(test_lines("#[cfg(test)]\nmod tests;\nmod a { }\n"), [false; 3]);
        assert_eq!(test_lines("#[cfg(test)]\nfn helper() {\n}\n"), [false; 3]);
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        assert!(is_test_file("crates/a/tests/matrix.rs"));
        assert!(is_test_file("crates/a/src/queue/tests.rs"));
        assert!(!is_test_file("crates/a/src/testing.rs"));
    }
}
