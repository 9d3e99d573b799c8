//! Rule: a test waits for an event, not for time to pass.

use super::{
    Violation,
    source::{Source, has_word},
    test_code,
};

const CONFORMANCE: &str = "crates/postroom-conformance/";
const EXCUSE: &str = "tidy: time itself";

pub(super) fn sleeping_tests(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    if !test_code::is_test_file(&source.path) && !source.path.starts_with(CONFORMANCE) {
        return Vec::new();
    }
    let comments: Vec<_> = rust.layers.comments.lines().collect();
    let excused = |line: usize| comments[line.saturating_sub(2)..line].iter().any(|text| text.contains(EXCUSE));
    let sleeping = rust.code_lines().filter(|(line, code)| has_word(code, "sleep(") && !excused(*line));
    let advice = format!("wait for a signal; where time is what is tested, say `// {EXCUSE}` and why");
    sleeping.map(|(line, _)| Violation::new(source, line, "sleeping-test", &*advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/postroom-conformance/src/suite/queue/claim.rs";

    #[test]
    fn a_sleep_is_refused() {
        let text = "fn a() {\n    thread::sleep(SECOND);\n}\n";
        assert_eq!(sleeping_tests(&Source::new(PATH, text)).len(), 1);
        assert_eq!(sleeping_tests(&Source::new("crates/a/tests/b.rs", text)).len(), 1);
    }

    #[test]
    fn an_excuse_covers_its_own_and_the_next_line() {
        let excused =
            "// tidy: time itself, a paused process outlives its lease\nsleep(a);\nsleep(b); // tidy: time itself\n";
        assert!(sleeping_tests(&Source::new(PATH, excused)).is_empty());
        let late = format!("{excused}\nsleep(c);\n");
        assert_eq!(sleeping_tests(&Source::new(PATH, &late))[0].line, 5);
    }

    #[test]
    fn an_excuse_in_a_string_is_none() {
        let text = "let a = \"tidy: time itself\";\nsleep(a);\n";
        assert_eq!(sleeping_tests(&Source::new(PATH, text)).len(), 1);
    }

    #[test]
    fn product_code_and_comments_may_speak_of_it() {
        assert!(sleeping_tests(&Source::new("crates/postroom-core/src/worker.rs", "sleep(a);\n")).is_empty());
        assert!(sleeping_tests(&Source::new(PATH, "// no sleep( here\nnever_sleep(a);\n")).is_empty());
    }
}
