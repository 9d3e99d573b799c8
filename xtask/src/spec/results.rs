//! The results that the conformance tests wrote, one JSON object per line.

use anyhow::{Context, Result};
use serde::Deserialize;

/// The result of one test on one backend.
#[derive(Debug, Deserialize)]
pub(super) struct TestResult {
    pub(super) test: String,
    pub(super) backend: String,
    pub(super) proves: Vec<String>,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl TestResult {
    /// Returns the test's name without the leading backend.
    pub(super) fn case(&self) -> &str {
        let case = self.test.strip_prefix(&self.backend).and_then(|rest| rest.strip_prefix("::"));
        case.unwrap_or(&self.test)
    }
}

pub(super) fn parse(lines: &str) -> Result<Vec<TestResult>> {
    let numbered = (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty());
    let parsed = numbered.map(|(number, line)| {
        serde_json::from_str(line).with_context(|| format!("line {number} of the results is no test result: {line}"))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_result() {
        let lines = r#"{"test":"sqlite::claim::a","backend":"sqlite","proves":["OBX-026"],"outcome":"passed"}

{"test":"claim::a","backend":"memory","proves":[],"outcome":"skipped"}
"#;
        let results = parse(lines).unwrap();
        let cases: Vec<_> = results.iter().map(|result| (result.case(), result.outcome)).collect();
        assert_eq!(cases, [("claim::a", Outcome::Passed), ("claim::a", Outcome::Skipped)]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = parse("\n{\"test\":").unwrap_err().to_string();
        assert!(error.starts_with("line 2"), "{error}");
    }
}
