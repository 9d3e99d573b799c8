//! Writes the matrix as a table for people and as JSON for programs.

use std::fmt::Write;

use anyhow::Result;

use super::matrix::{Matrix, Row};

/// Writes one requirement per line, with further tests and reasons below it.
pub(super) fn table(matrix: &Matrix) -> String {
    let mut cells = vec![["requirement".to_owned(), "passed on".to_owned(), "tests".to_owned()]];
    cells.extend(matrix.rows.iter().flat_map(lines));
    let width = |column: usize| cells.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [id, backends, tests] in &cells {
        let line = format!("{id:first$}  {backends:second$}  {tests}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "\n{}", summary(&matrix.rows));
    text
}

fn lines(row: &Row) -> Vec<[String; 3]> {
    let passed_on = row.backends.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let passed_on = if passed_on.is_empty() { "-".to_owned() } else { passed_on };
    let mut notes: Vec<_> = row.asks.iter().chain(&row.tests).cloned().collect();
    notes.extend(row.later.iter().map(|why| format!("later: {why}")));
    notes.extend(row.not_applicable.iter().map(|why| format!("not applicable to {why}")));
    notes.extend(row.differs.iter().map(|why| format!("differs: {why}")));
    if !row.missing.is_empty() {
        notes.push(format!("MISSING: {}", row.missing.join(", ")));
    }
    let mut notes = notes.into_iter();
    let first = [row.id.clone(), passed_on, notes.next().unwrap_or_default()];
    std::iter::once(first).chain(notes.map(|note| [String::new(), String::new(), note])).collect()
}

fn summary(rows: &[Row]) -> String {
    let count = |wanted: fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count();
    format!(
        "{} requirements: {} proven, {} later, {} not applicable, {} missing",
        rows.len(),
        count(|row| row.missing.is_empty() && row.later.is_none() && !row.backends.is_empty()),
        count(|row| row.later.is_some()),
        count(|row| row.missing.is_empty() && row.later.is_none() && row.backends.is_empty()),
        count(|row| !row.missing.is_empty()),
    )
}

/// Writes a list of objects with the id, tests, backends and text of each requirement, and the reason if it waits,
/// does not apply or is met in another way.
pub(super) fn json(matrix: &Matrix) -> Result<String> {
    Ok(serde_json::to_string_pretty(&matrix.rows)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Matrix {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let proven = Row {
            id: "IBX-001".into(),
            tests: strings(&["claim::a", "claim::b"]),
            backends: strings(&["memory", "sqlite"]),
            ..Row::default()
        };
        let later = Row { id: "IBX-085".into(), later: Some("next release".into()), ..Row::default() };
        let nowhere = Row { id: "OBX-095".into(), not_applicable: Some("sqlite: no server".into()), ..Row::default() };
        let missing = Row { id: "OBX-096".into(), missing: vec!["sqlite".into()], ..Row::default() };
        let section = Row {
            id: "SQM-6.2".into(),
            asks: Some("what is asked".into()),
            tests: strings(&["purge::c"]),
            backends: strings(&["sqlite"]),
            differs: Some("a month".into()),
            ..Row::default()
        };
        Matrix { rows: vec![proven, later, nowhere, missing, section], problems: Vec::new() }
    }

    #[test]
    fn the_table_reads_line_by_line() {
        let expected = "\
requirement  passed on       tests
IBX-001      memory, sqlite  claim::a
                             claim::b
IBX-085      -               later: next release
OBX-095      -               not applicable to sqlite: no server
OBX-096      -               MISSING: sqlite
SQM-6.2      sqlite          what is asked
                             purge::c
                             differs: a month

5 requirements: 2 proven, 1 later, 1 not applicable, 1 missing
";
        assert_eq!(table(&matrix()), expected);
    }

    #[test]
    fn json_holds_reasons_only_where_there_are_some() {
        let list: serde_json::Value = serde_json::from_str(&json(&matrix()).unwrap()).unwrap();
        let proven = serde_json::json!(
            {"id": "IBX-001", "tests": ["claim::a", "claim::b"], "backends": ["memory", "sqlite"]}
        );
        assert_eq!(list[0], proven);
        assert_eq!(list[1], serde_json::json!({"id": "IBX-085", "tests": [], "backends": [], "later": "next release"}));
        assert_eq!(list[2]["not_applicable"], "sqlite: no server");
        assert_eq!((&list[4]["asks"], &list[4]["differs"]), (&"what is asked".into(), &"a month".into()));
    }
}
