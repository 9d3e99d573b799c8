use std::{fs, path::Path};

use super::*;
use crate::run;

const OURS: &str = include_str!("../../../../crates/postroom-conformance/requirements.json");

fn catalog(later: &str, not_applicable: &str) -> Result<Catalog> {
    let json = format!(r#"{{"backends":["memory","sqlite"],"later":[{later}],"not_applicable":[{not_applicable}]}}"#);
    Catalog::parse(&json)
}

fn with_sections(sections: &str) -> Result<Catalog> {
    let json = r#"{"backends":["memory","sqlite"],"later":[],"not_applicable":[],"sections":[SECTIONS]}"#;
    Catalog::parse(&json.replace("SECTIONS", sections))
}

#[test]
fn requirements_are_numbered_without_gaps_and_sections_follow() {
    let catalog = with_sections(r#"{"id":"SQM-3.4.1","asks":"a"},{"id":"PLN-10","asks":"b","on":["sqlite"]}"#).unwrap();
    let all: Vec<_> = catalog.requirements().collect();
    assert_eq!(all.len(), 239);
    assert_eq!((all[0].as_str(), all[236].as_str(), all[237].as_str()), ("IBX-001", "OBX-107", "SQM-3.4.1"));
    assert!(catalog.exists("IBX-130") && catalog.exists("PLN-10"));
    assert!(!catalog.exists("IBX-131") && !catalog.exists("OBX-1") && !catalog.exists("SQM-3.4"));
    assert_eq!(catalog.owing("SQM-3.4.1").collect::<Vec<_>>(), ["memory", "sqlite"]);
    assert_eq!(catalog.owing("PLN-10").collect::<Vec<_>>(), ["sqlite"]);
}

#[test]
fn ranges_and_exceptions_are_found() {
    let catalog = catalog(
        r#"{"from":"OBX-066","to":"OBX-079","why":"next"}"#,
        r#"{"id":"OBX-091","backends":["memory"],"why":"no disk"}"#,
    )
    .unwrap();
    assert_eq!(catalog.later("OBX-079"), Some("next"));
    assert_eq!((catalog.later("OBX-080"), catalog.later("IBX-070")), (None, None));
    assert_eq!(catalog.not_applicable("OBX-091", "memory"), Some("no disk"));
    assert_eq!(catalog.not_applicable("OBX-091", "sqlite"), None);
    assert_eq!(catalog.owing("OBX-091").collect::<Vec<_>>(), ["sqlite"]);
}

#[test]
fn a_wrong_catalog_is_refused() {
    assert!(catalog(r#"{"from":"OBX-079","to":"OBX-066","why":"next"}"#, "").is_err());
    assert!(catalog(r#"{"from":"IBX-100","to":"OBX-001","why":"next"}"#, "").is_err());
    assert!(catalog(r#"{"from":"OBX-001","to":"OBX-002","why":""}"#, "").is_err());
    assert!(catalog("", r#"{"id":"OBX-200","backends":["memory"],"why":"x"}"#).is_err());
    assert!(catalog("", r#"{"id":"OBX-001","backends":["oracle"],"why":"x"}"#).is_err());
    assert!(catalog("", r#"{"id":"OBX-001","backends":["memory"],"reason":"x"}"#).is_err());
}

#[test]
fn a_wrong_section_is_refused() {
    for section in [
        r#"{"id":"SQM-","asks":"a"}"#,
        r#"{"id":"SQM-1.x","asks":"a"}"#,
        r#"{"id":"OBX-001","asks":"a"}"#,
        r#"{"id":"SQM-1","asks":""}"#,
        r#"{"id":"SQM-1","asks":"a","differs":""}"#,
        r#"{"id":"SQM-1","asks":"a"},{"id":"SQM-1","asks":"a"}"#,
        r#"{"id":"SQM-1","asks":"a","on":["oracle"]}"#,
        r#"{"id":"SQM-1","asks":"a","on":[]}"#,
        r#"{"id":"SQM-1","asks":"a","tests":["node::a_test"]}"#,
        r#"{"id":"SQM-1","asks":"a","tests":["a/lib: x","b/lib: x"]}"#,
    ] {
        assert!(with_sections(section).is_err(), "{section}");
    }
    let outside = r#"{"id":"SQM-1","asks":"a","on":[],"tests":["postroom-server/it: node::a_test"]}"#;
    let catalog = with_sections(outside).unwrap();
    let (test, id) = catalog.tests().next().unwrap();
    assert_eq!((test.to_string().as_str(), id), ("postroom-server/it: node::a_test", "SQM-1"));
}

/// Returns all Rust text below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(end) if end == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn every_requirement_of_this_repository_is_named_by_a_case_or_a_test() {
    let catalog = Catalog::parse(OURS).unwrap();
    let cases = sources(&run::root().join("crates/postroom-conformance/src/suite"));
    let unnamed = |id: &String| catalog.owing(id).next().is_some() && !cases.contains(&format!("\"{id}\""));
    assert_eq!(catalog.requirements().filter(unnamed).collect::<Vec<_>>(), [""; 0]);
    let outside = ["crates", "examples"].map(|folder| sources(&run::root().join(folder))).concat();
    let is_missing = |test: &TestName| !outside.contains(test.name.rsplit("::").next().unwrap());
    let missing = catalog.tests().map(|(test, _)| test).filter(|test| is_missing(test)).map(ToString::to_string);
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}
