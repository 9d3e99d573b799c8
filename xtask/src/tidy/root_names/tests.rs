//! Tests that names at the root are counted as a user sees them.

use super::*;

fn names(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    root_names(&sources, "crates/a/src").into_iter().collect()
}

fn of_root(text: &str) -> Vec<String> {
    names(&[("crates/a/src/lib.rs", text)])
}

#[test]
fn items_modules_and_uses_are_names() {
    let text = "pub mod doctor;\nmod b;\npub use b::{C, D as E, f::{self, G}};\npub fn h() {}\nfn i() {}\n\
                pub(crate) struct J;\npub(crate) use b::K;\nuse b::L;\npub use b::M as _;\n";
    assert_eq!(of_root(text), ["C", "E", "G", "doctor", "f", "h"]);
}

#[test]
fn a_macro_and_a_trait_of_the_same_name_are_one() {
    let text = "mod b;\npub use b::Event;\n#[cfg(feature = \"macros\")]\npub use macros::{Event, Signal};\n";
    assert_eq!(of_root(text), ["Event", "Signal"]);
}

#[test]
fn what_is_hidden_is_none() {
    let text =
        "#[doc(hidden)]\npub mod written;\n#[cfg(a)]\n#[doc(hidden)]\npub use b::C;\n#[doc(hidden)]\npub fn d() {}\n";
    assert_eq!(of_root(text), [""; 0]);
}

#[test]
fn exported_macros_stand_at_the_root() {
    let inner = "#[macro_export]\nmacro_rules! shown { () => {}; }\n#[doc(hidden)]\n#[macro_export]\n\
                 macro_rules! hidden { () => {}; }\nmacro_rules! own { () => {}; }\n";
    assert_eq!(names(&[("crates/a/src/lib.rs", "mod b;\n"), ("crates/a/src/b.rs", inner)]), ["shown"]);
}

#[test]
fn globs_hide_no_name() {
    let files = [
        (
            "crates/a/src/lib.rs",
            "mod b;\npub use b::*;\npub use a_core::*;\npub use a_core::deep::*;\npub use std::fmt::*;\n",
        ),
        ("crates/a/src/b.rs", "pub struct B;\nstruct C;\n"),
        ("crates/a-core/src/lib.rs", "mod d;\npub mod deep;\npub use d::D;\npub fn e() {}\n"),
        ("crates/a-core/src/deep.rs", "pub struct F;\n"),
    ];
    assert_eq!(names(&files), ["B", "D", "F", "deep", "e", "std::fmt"]);
}

#[test]
fn a_crowded_root_is_refused() {
    let root = |count: usize| {
        let text: String = (0..count).map(|number| format!("pub fn f{number}() {{}}\n")).collect();
        crowded_root(&[Source::new("crates/postroom/src/lib.rs", &text), Source::new("crates/a/src/lib.rs", &text)])
    };
    let found = root(MAX + 1);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "crates/postroom/src/lib.rs");
    assert!(found[0].advice.starts_with("46 names at the root, at most 45"), "{}", found[0].advice);
    assert!(root(MAX).is_empty());
    assert!(crowded_root(&[]).is_empty());
}
