//! Rule: the library asks its `Clock` for the time, so that tests can set it.

use super::{
    Violation,
    source::{Source, has_word},
};

/// The crates that must use a clock.
const LIBRARIES: &[&str] =
    &["crates/postroom-core/src/", "crates/postroom-services/src/", "crates/postroom-idempotent/src/"];
const CLOCK: &str = "crates/postroom-core/src/support/clock.rs";
const REAL_CLOCKS: &[&str] = &["SystemTime::now", "Instant::now"];

pub(super) fn clocks_elsewhere(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    if !LIBRARIES.iter().any(|library| source.path.starts_with(library)) || source.path == CLOCK {
        return Vec::new();
    }
    let reads_clock = |code: &str| REAL_CLOCKS.iter().any(|clock| has_word(code, clock));
    let reading = rust.code_lines().filter(|(_, code)| reads_clock(code));
    let advice = "ask the Clock: only clock.rs reads the real time";
    reading.map(|(line, _)| Violation::new(source, line, "clock", advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn a() {\n    std::time::Instant::now();\n}\n";

    #[test]
    fn the_real_clock_is_refused_in_the_library() {
        assert_eq!(clocks_elsewhere(&Source::new("crates/postroom-core/src/worker.rs", TEXT))[0].line, 2);
    }

    #[test]
    fn the_clock_itself_and_programs_may_read_it() {
        assert!(clocks_elsewhere(&Source::new(CLOCK, TEXT)).is_empty());
        assert!(clocks_elsewhere(&Source::new("crates/postroom-server/src/main.rs", TEXT)).is_empty());
        let comment = "// not Instant::now\n";
        assert!(clocks_elsewhere(&Source::new("crates/postroom-core/src/worker.rs", comment)).is_empty());
    }
}
