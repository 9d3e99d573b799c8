use super::*;

const ROOT: &str = "crates/postroom-core/src";
const LIB: &str = "crates/postroom-core/src/lib.rs";

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    let violations = missing_examples(&sources);
    violations.iter().map(|found| format!("{}:{}", found.path.trim_start_matches(ROOT), found.line)).collect()
}

/// What is found when `lib.rs` exports `A` of this file.
fn found_in(text: &str) -> Vec<String> {
    found(&[(LIB, "//! Doc.\npub use a::A;\n"), ("crates/postroom-core/src/a.rs", text)])
}

#[test]
fn an_item_without_an_example_is_refused() {
    for item in ["struct A;", "enum A {}", "trait A: B {}", "type A<T> = T;", "const A: u8 = 1;"] {
        assert_eq!(found_in(&format!("/// Doc.\n#[derive(B)]\npub {item}\n")), ["/a.rs:3"], "{item}");
    }
    for item in ["fn A() {}", "async fn A<T>() {}", "const fn A() {}"] {
        assert_eq!(found_in(&format!("pub {item}\n")), ["/a.rs:1"], "{item}");
    }
}

#[test]
fn an_example_stands_in_the_documentation_of_the_item_itself() {
    let example = "/// Doc.\n///\n/// ```no_run\n/// let a = A {};\n/// ```\n";
    assert!(found_in(&format!("{example}#[derive(B)]\npub struct A;\n")).is_empty());
    assert!(found_in(&format!("{example}#[b(\n    c = \"d\",\n)]\npub struct A;\n")).is_empty());
    assert_eq!(found_in(&format!("{example}pub const B: u8 = 1;\npub struct A;\n")), ["/a.rs:7"]);
    assert_eq!(found_in(&format!("{example}pub struct B;\n\npub struct A;\n")), ["/a.rs:8"]);
}

#[test]
fn what_is_not_compiled_is_no_example() {
    assert_eq!(found_in("/// ```text\n/// a\n/// ```\npub struct A;\n"), ["/a.rs:4"]);
    assert_eq!(found_in("/// ```ignore\n/// a\n/// ```\npub struct A;\n"), ["/a.rs:4"]);
    assert!(found_in("/// ```text\n/// a\n/// ```\n///\n/// ```\n/// a\n/// ```\npub struct A;\n").is_empty());
}

#[test]
fn every_name_is_looked_for_in_its_module() {
    let lib = "//! Doc.\npub use a::{\n    A,\n    B as C,\n};\n";
    let b = "/// ```\n/// ```\npub struct B;\n";
    let (a, elsewhere) = ("pub struct A;\n", "/// ```\n/// ```\npub struct A;\n");
    let files = [
        (LIB, lib),
        ("crates/postroom-core/src/a/b.rs", b),
        ("crates/postroom-core/src/a/c.rs", a),
        ("crates/postroom-core/src/ab.rs", elsewhere),
    ];
    assert_eq!(found(&files), ["/a/c.rs:1"]);
    let testing = "//! Doc.\npub use a::A;\npub use crate::a::A;\n";
    let files = [
        ("crates/postroom-core/src/testing.rs", testing),
        ("crates/postroom-core/src/testing/a.rs", elsewhere),
        ("crates/postroom-core/src/a/c.rs", a),
    ];
    assert_eq!(found(&files), ["/a/c.rs:1"]);
}

#[test]
fn what_stands_in_the_door_itself_is_exported_too() {
    assert_eq!(found(&[("crates/postroom-core/src/db/doctor.rs", "/// Doc.\npub struct A;\n")]), ["/db/doctor.rs:2"]);
}

#[test]
fn a_name_that_a_macro_makes_an_item_of_has_its_documentation_there() {
    assert_eq!(found_in("make! {\n    /// Doc.\n    A\n}\n"), ["/a.rs:3"]);
    assert!(found_in("make! {\n    /// ```\n    /// ```\n    A\n}\n").is_empty());
}

#[test]
fn an_item_that_is_not_found_is_told_where_it_is_exported() {
    assert_eq!(found_in("    pub fn A() {}\n"), ["/lib.rs:2"]);
}

#[test]
fn macros_and_hidden_items_need_none() {
    let lib = "//! Doc.\npub use postroom_macros::{A, B};\n#[doc(hidden)]\npub use c::C;\npub(crate) use d::D;\n";
    assert!(found(&[(LIB, lib)]).is_empty());
    assert!(found_in("/// Doc.\n#[doc(hidden)]\npub struct A;\n").is_empty());
}
