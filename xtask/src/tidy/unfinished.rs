//! Rule: unfinished work is in the issue tracker, not in the source.

use super::{
    Violation,
    source::{Source, has_word, is_identifier, numbered},
};

// The markers are joined from two halves, because the rule reads this file too.
const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACRO: &str = concat!("to", "do!(");

pub(super) fn unfinished_work(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (line, text) in numbered(&source.text) {
        let marker = MARKERS.iter().find(|marker| is_marked(text, marker)).copied();
        let marker = marker.or_else(|| has_word(text, MACRO).then_some(MACRO));
        if let Some(marker) = marker {
            let advice = format!("`{marker}`: finish it, or open an issue and remove the mark");
            violations.push(Violation::new(source, line, "unfinished-work", advice));
        }
    }
    violations
}

/// Returns whether the marker is a separate word: `mktemp file.XXXXXX` is not marked.
fn is_marked(text: &str, marker: &str) -> bool {
    text.match_indices(marker)
        .any(|(at, _)| !text[..at].ends_with(is_identifier) && !text[at + marker.len()..].starts_with(is_identifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marker_is_refused_in_every_file() {
        for marker in MARKERS.iter().chain(&[MACRO]) {
            for path in ["src/a.rs", "README.md", "Cargo.toml"] {
                let found = unfinished_work(&Source::new(path, &format!("fine\n// {marker}: later\n")));
                assert_eq!(found.len(), 1, "{marker} in {path}");
                assert_eq!(found[0].line, 2);
            }
        }
    }

    #[test]
    fn longer_and_lower_case_words_are_allowed() {
        let text = format!("mktemp a.XXXXXX\ntodo = \"deny\"\n{}S\n", MARKERS[0]);
        assert!(unfinished_work(&Source::new("a.md", &text)).is_empty());
    }
}
