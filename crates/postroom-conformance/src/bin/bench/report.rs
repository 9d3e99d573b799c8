//! The figures, as a table and as JSON.

use serde::Serialize;

#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Where the next figures are measured.
    pub(crate) backend: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// One figure beside its baseline; a ratio above 1 is better than the baseline, for latencies too.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    backend: &'static str,
    case: String,
    unit: &'static str,
    postroom: f64,
    baseline: f64,
    ratio: f64,
}

impl Report {
    /// More is better.
    pub(crate) fn rate(&mut self, case: &str, unit: &'static str, postroom: f64, baseline: f64) {
        self.push(case, unit, postroom, baseline, postroom / baseline);
    }

    /// Less is better.
    pub(crate) fn cost(&mut self, case: &str, unit: &'static str, postroom: f64, baseline: f64) {
        self.push(case, unit, postroom, baseline, baseline / postroom);
    }

    fn push(&mut self, case: &str, unit: &'static str, postroom: f64, baseline: f64, ratio: f64) {
        let row = Row { backend: self.backend, case: case.to_owned(), unit, postroom, baseline, ratio };
        eprintln!("{}", row.line());
        self.rows.push(row);
    }

    pub(crate) fn print(&self) {
        println!("{:<9} {:<60} {:>14} {:>14} {:>7}  unit", "backend", "case", "postroom", "baseline", "ratio");
        self.rows.iter().for_each(|row| println!("{}", row.line()));
    }
}

impl Row {
    fn line(&self) -> String {
        let Self { backend, case, postroom, baseline, ratio, unit, .. } = self;
        format!("{backend:<9} {case:<60} {postroom:>14.1} {baseline:>14.1} {ratio:>7.2}  {unit}")
    }
}
