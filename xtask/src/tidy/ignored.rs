//! Rule: no test is switched off in the source.

use super::{Violation, source::Source};

pub(super) fn ignored_tests(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let ignored = rust.code_lines().filter(|(_, code)| is_ignored(code));
    let advice = "repair the test or delete it";
    ignored.map(|(line, _)| Violation::new(source, line, "ignored-test", advice)).collect()
}

fn is_ignored(code: &str) -> bool {
    let code = code.trim_start();
    code.contains("#[ignore") || (code.contains("cfg_attr(") && code.contains(", ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switched_off_tests_are_refused() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[cfg_attr(unix, ignore)]\nfn b() {}\n";
        let lines: Vec<_> = ignored_tests(&Source::new("src/a.rs", text)).iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn speaking_of_it_is_allowed() {
        assert!(ignored_tests(&Source::new("src/a.rs", "// no #[ignore] here\nlet a = \"#[ignore]\";\n")).is_empty());
    }
}
