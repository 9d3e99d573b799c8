//! Adds up the results that the test programs print.

use std::{collections::BTreeMap, fmt::Write};

/// With this prefix in its reason, a test may be skipped in CI too, because its requirements cannot be installed
/// there.
const OPTIONAL: &str = "optional: ";

/// The counts of all test programs in one run, and the names to repeat at its end.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    failed_names: Vec<String>,
    skipped_names: Vec<(String, String)>,
}

impl Tally {
    /// Reads one line of output.
    pub(super) fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count(result, " passed");
            self.failed += count(result, " failed");
            self.skipped += count(result, " ignored");
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_outcome(test);
        }
    }

    fn read_outcome(&mut self, test: &str) {
        let Some((name, outcome)) = test.rsplit_once(" ... ") else {
            return;
        };
        let name = name.trim().to_owned();
        if outcome == "FAILED" {
            self.failed_names.push(name);
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            // Standard tests print `ignored, why`, and our own runners print `ignored (why)`.
            let reason = reason.trim_start_matches([',', ' ', '(']).trim_end_matches(')');
            let reason = if reason.is_empty() { "no reason given" } else { reason };
            self.skipped_names.push((name, reason.to_owned()));
        }
    }

    /// Counts a program whose last line was `5 passed, 0 failed, 1 skipped`.
    pub(super) fn add_program(&mut self, name: &str, last: &str, succeeded: bool) {
        let failed = count(last, " failed");
        self.passed += count(last, " passed");
        self.failed += failed;
        self.skipped += count(last, " skipped");
        if !succeeded || failed > 0 {
            self.failed += u64::from(failed == 0);
            self.failed_names.push(name.to_owned());
        }
    }

    /// Counts a program that cannot run here.
    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        self.skipped += 1;
        self.skipped_names.push((name.to_owned(), reason.to_owned()));
    }

    /// Returns how many tests were skipped for a reason that applies everywhere.
    pub(super) fn optional(&self) -> u64 {
        self.skipped_names.iter().filter(|(_, reason)| reason.starts_with(OPTIONAL)).count() as u64
    }

    pub(super) fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Lists the skipped tests, one per line, each with its reason. Those with the same optional reason are only
    /// counted.
    pub(super) fn skipped_names(&self) -> String {
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        let mut lines = Vec::new();
        for (name, reason) in &self.skipped_names {
            match reason.strip_prefix(OPTIONAL) {
                Some(reason) => *counted.entry(reason).or_default() += 1,
                None => lines.push(format!("  {name}: {reason}")),
            }
        }
        lines.extend(counted.iter().map(|(reason, count)| format!("  {count} optional tests: {reason}")));
        lines.join("\n")
    }

    /// Returns the failed and skipped names, then the counts on their own line.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        if !self.failed_names.is_empty() {
            let _ = writeln!(text, "failed:\n  {}", self.failed_names.join("\n  "));
        }
        if !self.skipped_names.is_empty() {
            let _ = writeln!(text, "skipped:\n{}", self.skipped_names());
        }
        let _ = writeln!(text, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        text
    }
}

/// Returns the number before `label` in `ok. 5 passed; 0 failed; 1 ignored; …`.
fn count(result: &str, label: &str) -> u64 {
    let Some((before, _)) = result.split_once(label) else {
        return 0;
    };
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn results_of_several_programs_are_summed() {
        let tally = tally(
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
             test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped), (17, 3, 1));
        assert_eq!(tally.summary(), "17 passed, 3 failed, 1 skipped\n");
    }

    #[test]
    fn programs_in_other_languages_count_too() {
        let mut tally = tally("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n");
        tally.add_program("clients/python", "12 passed, 0 failed, 2 skipped", true);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (17, 0, 3));
        tally.add_program("clients/typescript", "12 passed, 2 failed, 0 skipped", false);
        tally.add_program("clients/python", "it ended before it counted", false);
        tally.skip("clients/typescript", "install npm");
        let summary = "failed:\n  clients/typescript\n  clients/python\nskipped:\n  clients/typescript: install npm\n\
                       29 passed, 3 failed, 4 skipped\n";
        assert_eq!(tally.summary(), summary);
    }

    #[test]
    fn names_and_reasons_are_repeated() {
        let tally = tally(
            "test sqlite::claim::respects_the_batch   ... FAILED\n\
             test src/lib.rs - Outbox (line 3) ... ignored\n\
             test slow ... ignored, needs a server\n\
             test far ... ignored (no PostgreSQL)\n\
             test fine ... ok\n",
        );
        let expected = "failed:\n  sqlite::claim::respects_the_batch\n\
                        skipped:\n  src/lib.rs - Outbox (line 3): no reason given\n  slow: needs a server\n  \
                        far: no PostgreSQL\n\
                        0 passed, 0 failed, 0 skipped\n";
        assert_eq!(tally.summary(), expected);
    }

    #[test]
    fn optional_tests_are_counted_by_their_reason() {
        let tally =
            tally("test a ... ignored (optional: no such server)\ntest b ... ignored (optional: no such server)\n");
        assert_eq!(tally.optional(), 2);
        assert_eq!(tally.skipped_names(), "  2 optional tests: no such server");
    }

    #[test]
    fn other_lines_mean_nothing() {
        let tally = tally("running 3 tests\ntesting... 5 passed\n   Doc-tests postroom\n");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (0, 0, 0));
    }
}
