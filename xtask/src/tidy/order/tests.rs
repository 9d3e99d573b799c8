//! Tests that the rule finds violations, and accepts what it should.

use super::*;

const ORDERED: Crate = Crate {
    folder: "crates/a/src",
    modules: &["low", "queue", "queue::lease", "db::lite", "db", "work", "work::inner", "high", "crate"],
};

/// Every entry has a source, so that only what a test adds is refused.
const COMPLETE: &[(&str, &str)] = &[
    ("lib.rs", "mod low;\nmod queue;\nmod db;\nmod work;\nmod high;\npub use high::Top;\nfn root() {}\n"),
    ("low.rs", "pub struct Low;\n"),
    ("queue.rs", "pub mod lease;\npub struct Queue;\n"),
    ("queue/lease.rs", "pub struct Lease;\n"),
    ("db.rs", "pub mod lite;\npub mod rest;\npub use lite::{Lite, open as open_lite};\npub use rest::Rest;\n"),
    ("db/lite.rs", "pub struct Lite;\npub fn open() {}\n"),
    ("db/rest.rs", "pub struct Rest;\n"),
    ("work.rs", "pub mod inner;\npub struct Work;\n"),
    ("work/inner.rs", "pub struct Inner;\n"),
    ("high.rs", "pub struct Top;\n"),
];

/// Returns the complete tree with some files replaced or added.
fn sources(changed: &[(&str, &str)]) -> Vec<Source> {
    let kept = COMPLETE.iter().filter(|(path, _)| changed.iter().all(|(other, _)| other != path));
    let source = |(path, text): &(&str, &str)| Source::new(&format!("{}/{path}", ORDERED.folder), text);
    kept.chain(changed).map(source).collect()
}

fn refused(changed: &[(&str, &str)]) -> Vec<String> {
    let mut found = out_of_order(&ORDERED, &sources(changed));
    found.sort();
    let short = |path: &str| path.trim_start_matches("crates/a/src/").to_owned();
    let text = |v: &Violation| format!("{}:{} {} {}", short(&v.path), v.line, v.rule, v.advice);
    // One test checks the end of the advice.
    found.iter().map(|violation| text(violation).split(", which").next().unwrap_or_default().to_owned()).collect()
}

/// Returns the entries that a file in this place may not import.
fn upward(path: &str, text: &str) -> Vec<String> {
    let found = refused(&[(path, text)]).into_iter().filter(|found| found.contains(" import `"));
    found.filter_map(|found| found.split('`').nth(3).map(str::to_owned)).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn a_tree_in_order_is_let_pass() {
    assert_eq!(refused(&[]), NONE);
    assert_eq!(refused(&[("high.rs", "use crate::{low::Low, queue::lease::Lease, db::Lite, work};\n")]), NONE);
}

#[test]
fn an_import_of_a_later_entry_names_both_and_says_what_to_do() {
    let found = out_of_order(&ORDERED, &sources(&[("low.rs", "\nuse crate::queue::Queue;\nfn a() {}\n")]));
    assert_eq!(
        found[0].to_string(),
        "crates/a/src/low.rs:2: import: `low` imports `queue`, which comes after it in the order: \
         move what is shared down, or turn the dependency around"
    );
    assert_eq!(found.len(), 1);
}

#[test]
fn the_longest_entry_owns_a_module() {
    assert_eq!(upward("queue.rs", "mod lease;\nuse crate::queue::lease::Lease;\nfn a() {}\n"), ["queue::lease"]);
    assert_eq!(upward("queue/lease.rs", "use super::Queue;\nfn a() {}\n"), NONE);
    assert_eq!(upward("db/lite.rs", "use super::rest::Rest;\nfn a() {}\n"), ["db"]);
    assert_eq!(upward("db/rest.rs", "use super::Lite;\nfn a() {}\n"), NONE);
    assert_eq!(upward("queue/lease/deep.rs", "use crate::db::Lite;\nfn a() {}\n"), ["db::lite"]);
}

#[test]
fn a_reexported_name_is_an_import_of_its_module() {
    assert_eq!(upward("low.rs", "use crate::Top;\nfn a() {}\n"), ["high"]);
    assert_eq!(upward("low.rs", "fn a() { crate::db::open_lite(); }\n"), ["db::lite"]);
    assert_eq!(upward("work.rs", "mod inner;\nuse crate::db::{Lite, Rest};\nfn a() {}\n"), NONE);
}

#[test]
fn a_parent_may_show_its_children_but_not_use_later_ones() {
    assert_eq!(upward("work.rs", "mod inner;\npub(crate) use inner::Inner;\nfn a() {}\n"), NONE);
    assert_eq!(upward("work.rs", "mod inner;\npub use crate::work::inner::Inner;\nfn a() {}\n"), NONE);
    assert_eq!(upward("work.rs", "mod inner;\npub use self::inner::Inner;\nfn a() {}\n"), NONE);
    assert_eq!(upward("work.rs", "mod inner;\nuse inner::Inner;\nfn a() {}\n"), ["work::inner"]);
    assert_eq!(upward("work.rs", "mod inner;\nfn a() { inner::go(); }\n"), ["work::inner"]);
    assert_eq!(upward("work.rs", "mod inner;\npub use crate::high::Top;\nfn a() {}\n"), ["high"]);
}

#[test]
fn a_list_of_modules_needs_no_place_and_imports_nothing() {
    assert_eq!(refused(&[("new.rs", "//! New.\nmod a;\npub use crate::high::Top;\nmod b { mod c {} }\n")]), NONE);
    assert_eq!(refused(&[("db.rs", "mod lite;\nmod rest;\npub use crate::high::Top;\n")]), NONE);
}

#[test]
fn a_file_with_code_needs_a_place() {
    let place = "has no place in the order: give it one in xtask/src/tidy/order/table.rs";
    assert_eq!(refused(&[("new.rs", "fn a() {}\n")]), [format!("new.rs:1 module-order `new` {place}")]);
    assert_eq!(refused(&[("new/deep.rs", "fn a() {}\n")]), [format!("new/deep.rs:1 module-order `new::deep` {place}")]);
    let without_root = Crate { modules: &ORDERED.modules[..8], ..ORDERED };
    let found = out_of_order(&without_root, &sources(&[]));
    assert_eq!(found[0].advice, format!("`crate` {place}"));
    assert_eq!(refused(&[("bin/tool.rs", "fn a() {}\n"), ("main.rs", "fn a() {}\n")]), NONE);
}

#[test]
fn an_entry_without_a_file_is_refused_where_it_stands() {
    let mut sources = sources(&[]);
    sources.retain(|source| !source.path.ends_with("low.rs"));
    let table = "\"crates/b/src\" [\"low\"]\n\"crates/a/src\" [\n    \"low\",\n    \"queue\"]\n";
    sources.push(Source::new(table::FILE, table));
    let found: Vec<_> = out_of_order(&ORDERED, &sources).iter().map(ToString::to_string).collect();
    let stale = "`low` is no module of crates/a/src: take it out of the order";
    assert_eq!(found, [format!("{}:3: module-order: {stale}", table::FILE)]);
}

#[test]
fn modules_that_import_each_other_are_told_together() {
    let found = refused(&[
        ("low.rs", "use crate::queue::Queue;\nfn a() {}\n"),
        ("queue.rs", "mod lease;\nuse crate::db::Lite;\nfn a() {}\n"),
        ("db/lite.rs", "use crate::low::Low;\nfn a() {}\n"),
    ]);
    let cycle = "import-cycle these import each other in crates/a/src: low, queue, db::lite";
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[2], format!("{}:1 {cycle}", table::FILE));
}

#[test]
fn comments_strings_tests_and_other_crates_are_free() {
    for text in [
        "//! See [`crate::high`].\nconst A: &str = \"crate::high\";\n",
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    use crate::high::Top;\n}\n",
        "#[cfg(test)]\nuse crate::high::Top;\nfn a() {}\n",
        "struct A;\nimpl A {\n    #[cfg(test)]\n    fn b() { crate::high::c(); }\n    fn d() {}\n}\n",
        "#[cfg(test)]\nmod for_tests;\nfn a() {}\n",
        "use other_crate::high;\nuse metrics::crate_::high;\nuse ::high::Top;\nfn a() { high::b(); }\n",
        "pub(in crate::high) fn a() {}\nstruct B { pub(in crate::high) c: u8 }\n",
    ] {
        assert_eq!(refused(&[("low.rs", text), ("low/for_tests.rs", "fn a() {}\n")]), NONE, "{text}");
    }
    assert_eq!(refused(&[("low/tests.rs", "use crate::high::Top;\n")]), NONE);
    assert_eq!(
        refused(&[
            ("low.rs", "#[cfg(test)]\nmod for_tests;\nfn a() {}\n"),
            ("low/for_tests.rs", "use crate::high::Top;\nfn a() {}\n")
        ]),
        NONE
    );
}

#[test]
fn a_library_without_an_order_is_refused() {
    let sources = ["crates/a/src/lib.rs", "crates/b/src/lib.rs", "crates/c/src/main.rs", UNORDERED_ROOT]
        .map(|path| Source::new(path, ""));
    let found: Vec<_> = crates_without_order(&[ORDERED], &sources).into_iter().map(|found| found.path).collect();
    assert_eq!(found, ["crates/b/src/lib.rs"]);
}

const UNORDERED_ROOT: &str = "crates/postroom-testbed/src/lib.rs";

#[test]
fn no_entry_stands_in_the_order_twice() {
    for order in ORDER {
        let mut modules = order.modules.to_vec();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(modules.len(), order.modules.len(), "{}", order.folder);
    }
}
