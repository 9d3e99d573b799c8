//! Tests with small catalogs. All requirements except the first three are postponed, so that each test shows only its
//! own.

use super::*;
use crate::spec::results;

const REST_LATER: &str =
    r#"{"from":"IBX-004","to":"IBX-130","why":"next"},{"from":"OBX-001","to":"OBX-107","why":"next"}"#;
const NO_DISK: &str = r#"{"id":"IBX-003","backends":["memory"],"why":"no disk"}"#;

fn collate(lines: &[(&str, &str, &str)]) -> Matrix {
    let catalog = format!(r#"{{"backends":["memory","sqlite"],"later":[{REST_LATER}],"not_applicable":[{NO_DISK}]}}"#);
    let results: Vec<_> = lines.iter().map(|(test, ids, outcome)| result(test, ids, outcome)).collect();
    Matrix::collate(&Catalog::parse(&catalog).unwrap(), &results::parse(&results.join("\n")).unwrap())
}

fn result(test: &str, ids: &str, outcome: &str) -> String {
    let backend = test.split("::").next().unwrap();
    let ids: Vec<_> = ids.split(' ').collect();
    serde_json::json!({ "test": test, "backend": backend, "proves": ids, "outcome": outcome }).to_string()
}

const COMPLETE: [(&str, &str, &str); 3] = [
    ("memory::a", "IBX-001 IBX-002", "passed"),
    ("sqlite::a", "IBX-001 IBX-002", "passed"),
    ("sqlite::b", "IBX-001 IBX-003", "passed"),
];

#[test]
fn a_complete_run_has_no_problems() {
    let matrix = collate(&COMPLETE);
    assert_eq!(matrix.problems, [""; 0]);
    assert_eq!(matrix.rows.len(), 237);
    let first = &matrix.rows[0];
    assert_eq!(first.tests, ["a", "b"].map(str::to_owned).into());
    assert_eq!(first.backends, ["memory", "sqlite"].map(str::to_owned).into());
}

#[test]
fn a_requirement_without_proof_on_a_backend_is_a_problem() {
    let matrix = collate(&COMPLETE[..2]);
    assert_eq!(matrix.problems, ["IBX-003 is not proven by sqlite"]);
    let matrix = collate(&COMPLETE[1..]);
    assert_eq!(matrix.problems, ["IBX-001 is not proven by memory", "IBX-002 is not proven by memory"]);
}

#[test]
fn a_skipped_test_proves_nothing() {
    let skipped = ("sqlite::b", "IBX-003", "skipped");
    let matrix = collate(&[COMPLETE[0], COMPLETE[1], skipped]);
    assert_eq!(matrix.problems, ["IBX-003 is not proven by sqlite"]);
    assert!(matrix.rows[2].tests.is_empty());
}

#[test]
fn a_failed_test_is_a_problem_though_another_proves_the_same() {
    let matrix = collate(&[COMPLETE[0], COMPLETE[1], COMPLETE[2], ("sqlite::c", "IBX-001", "failed")]);
    assert_eq!(matrix.problems, ["c failed on sqlite"]);
}

#[test]
fn an_unknown_requirement_is_a_problem() {
    let matrix = collate(&[COMPLETE[0], COMPLETE[1], COMPLETE[2], ("sqlite::c", "IBX-131", "passed")]);
    assert_eq!(matrix.problems, ["sqlite::c names IBX-131, which does not exist"]);
}

#[test]
fn reasons_stand_in_the_rows() {
    let matrix = collate(&COMPLETE);
    assert_eq!(matrix.rows[2].not_applicable.as_deref(), Some("memory: no disk"));
    assert_eq!(matrix.rows[3].later.as_deref(), Some("next"));
}

#[test]
fn an_optional_backend_owes_a_proof_only_where_it_was_tested() {
    let catalog =
        format!(r#"{{"backends":["memory"],"optional":["memory"],"later":[{REST_LATER}],"not_applicable":[]}}"#);
    let collate = |lines: &[String]| {
        Matrix::collate(&Catalog::parse(&catalog).unwrap(), &results::parse(&lines.join("\n")).unwrap()).problems.len()
    };
    assert_eq!(collate(&[]), 0);
    assert_eq!(collate(&[result("memory::a", "IBX-001 IBX-002", "passed")]), 1);
}

#[test]
fn a_section_is_proven_by_its_backends_and_by_each_test_it_names() {
    let section = r#"{"id":"SQM-6.3","asks":"a","on":["sqlite"],"differs":"b","tests":["xtask/lib: tests::c"]}"#;
    let catalog = format!(
        r#"{{"backends":["memory","sqlite"],"later":[{REST_LATER},{{"from":"IBX-001","to":"IBX-003","why":"next"}}],
            "not_applicable":[],"sections":[{section}]}}"#
    );
    let catalog = Catalog::parse(&catalog).unwrap();
    let mut results = results::parse(&result("sqlite::a", "SQM-6.3", "passed")).unwrap();
    assert_eq!(Matrix::collate(&catalog, &results).problems, ["SQM-6.3 is not proven by xtask/lib: tests::c"]);
    let (test, backend) = ("xtask/lib: tests::c".to_owned(), "xtask".to_owned());
    results.push(TestResult { test, backend, proves: vec!["SQM-6.3".to_owned()], outcome: Outcome::Passed });
    let matrix = Matrix::collate(&catalog, &results);
    assert_eq!(matrix.problems, [""; 0]);
    let row = matrix.rows.last().unwrap();
    assert_eq!((row.asks.as_deref(), row.differs.as_deref()), (Some("a"), Some("b")));
    assert_eq!(row.tests, ["a", "xtask/lib: tests::c"].map(str::to_owned).into());
    assert_eq!(row.backends, ["sqlite", "xtask"].map(str::to_owned).into());
}
