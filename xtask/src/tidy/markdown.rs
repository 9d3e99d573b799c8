//! Rule: a page has one title, and no invisible characters at the ends of its lines.

use super::{
    Violation,
    source::{Source, numbered},
};

pub(super) fn headings(source: &Source) -> Vec<Violation> {
    if !is_markdown(source) {
        return Vec::new();
    }
    let titles: Vec<_> = prose(&source.text).filter(|(_, text)| is_title(text)).map(|(line, _)| line).collect();
    match titles.as_slice() {
        [] => vec![Violation::new(source, 1, "one-title", "no `# Title`: give the page one")],
        [_, others @ ..] => {
            let advice = "a second `# Title`: make it `##`";
            others.iter().map(|line| Violation::new(source, *line, "one-title", advice)).collect()
        }
    }
}

pub(super) fn trailing_whitespace(source: &Source) -> Vec<Violation> {
    if !is_markdown(source) {
        return Vec::new();
    }
    let trailing = numbered(&source.text).filter(|(_, text)| text.ends_with([' ', '\t']));
    let advice = "remove the blanks at the end of the line";
    trailing.map(|(line, _)| Violation::new(source, line, "trailing-whitespace", advice)).collect()
}

fn is_markdown(source: &Source) -> bool {
    source.file_name().ends_with(".md")
}

fn is_title(text: &str) -> bool {
    text.starts_with("# ") || text.starts_with("<h1")
}

/// Returns the lines outside code fences. A fence ends with at least as many of the characters that began it.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut open: Option<&str> = None;
    numbered(text).filter(move |(_, line)| {
        let fence = fence(line);
        match (open, fence) {
            (None, Some(fence)) => open = Some(fence),
            (Some(begun), Some(fence)) if fence.starts_with(begun) && line.trim() == fence => open = None,
            (None, None) => return true,
            (Some(_), _) => {}
        }
        false
    })
}

fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let length = |mark| line.len() - line.trim_start_matches(mark).len();
    let length = length('`').max(length('~'));
    (length >= 3).then(|| &line[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn titles(text: &str) -> Vec<usize> {
        headings(&Source::new("README.md", text)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn none_or_two_titles_are_refused() {
        assert_eq!(titles("## Part\n"), [1]);
        assert_eq!(titles("# One\n\n# Two\n# Three\n"), [3, 4]);
    }

    #[test]
    fn one_title_is_allowed_and_code_has_none() {
        assert_eq!(titles("# One\n\n```sh\n# comment\n```\n\n## Part\n"), NONE);
        assert_eq!(titles("# One\n\n````md\n```\n# inner\n```\n# inner\n````\n~~~\n# inner\n~~~\n"), NONE);
        assert!(headings(&Source::new("run.sh", "#!/bin/sh\n")).is_empty());
    }

    #[test]
    fn blanks_at_the_end_of_a_line_are_refused() {
        let found = trailing_whitespace(&Source::new("a.md", "# A\nb \nc\t\n"));
        assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn clean_lines_are_allowed() {
        assert!(trailing_whitespace(&Source::new("a.md", "# A\n\nb c\n")).is_empty());
    }
}
