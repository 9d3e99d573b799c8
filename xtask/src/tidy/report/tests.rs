//! Tests that the report counts correctly.

use super::*;

const ORDERED: &[Crate] = &[Crate { folder: "crates/a/src", modules: &["low", "high"] }];

fn report() -> serde_json::Value {
    let low =
        "//! Low.\n\nuse crate::high::High;\n/// Doc.\nfn a() {} // b\n#[cfg(test)]\nmod tests {\n\n    // c\n}\n";
    let sources = [
        Source::new("crates/a/src/lib.rs", "mod high;\nmod low;\npub use high::High;\n"),
        Source::new("crates/a/src/low.rs", low),
        Source::new("crates/a/src/high.rs", "use crate::low;\npub struct High;\nconst A: &str = \"\n  //b\n\";\n"),
        Source::new("crates/a/src/low/tests.rs", &"a();\n".repeat(20)),
        Source::new("crates/a/tests/it.rs", "// a\nb();\n"),
        Source::new("crates/a/benches/b.rs", "a();\n"),
        Source::new("crates/b/src/main.rs", "fn main() {}\n"),
        Source::new(GENERATED[0], &"a();\n".repeat(50)),
        Source::new("crates/a/src/notes.md", "# A\n"),
        Source::new("xtask/src/main.rs", "fn main() {}\n"),
    ];
    serde_json::from_str(&json(&Report::of(ORDERED, &sources)).unwrap()).unwrap()
}

#[test]
fn the_order_is_told_in_numbers() {
    let report = report();
    assert_eq!((&report["modules"], &report["edges"], &report["cycles"]), (&2.into(), &2.into(), &1.into()));
    let upward = serde_json::json!(
        [{"crate": "a", "from": "low", "to": "high", "path": "crates/a/src/low.rs", "line": 3}]
    );
    assert_eq!(report["upward"], upward);
    assert_eq!(report["root_names"], serde_json::json!({"a": 1}));
    assert_eq!(report["root_names_max"], 45);
}

#[test]
fn sizes_are_those_of_written_sources_without_test_files() {
    let report = report();
    assert_eq!((&report["files"], &report["median"]), (&4.into(), &4.into()));
    assert_eq!(report["largest"], serde_json::json!({"path": "crates/a/src/low.rs", "lines": 10}));
}

#[test]
fn lines_are_code_tests_documentation_or_blank() {
    let expected = serde_json::json!({
        "a": {"code": 10, "tests": 26, "docs": 2, "blank": 2},
        "b": {"code": 1, "tests": 0, "docs": 0, "blank": 0},
    });
    assert_eq!(report()["lines"], expected);
}

#[test]
fn the_median_lies_in_the_middle() {
    assert_eq!((median(vec![]), median(vec![9, 1, 3]), median(vec![4, 1, 9, 3])), (0, 3, 3));
}
