//! Tests that a name leads to the module that defines it, however it was re-exported.

use super::*;

const FILES: &[(&str, &str)] = &[
    (
        "lib.rs",
        "mod db;\nmod low;\nmod work;\nmod globs;\npub use db::Lite as Store;\npub use work::{Work, hidden};\n\
         pub use macros::Event;\npub use low::Event;\npub use db as databases;\n",
    ),
    ("low.rs", "pub use crate::globs::Round;\npub trait Event {}\n#[macro_export]\nmacro_rules! check { () => {}; }\n"),
    (
        "db.rs",
        "pub(crate) mod lite;\nmod heavy;\npub use lite::Lite;\n#[cfg(a)]\npub use lite::wait;\n\
         #[cfg(b)]\npub use heavy::wait;\n",
    ),
    ("db/lite.rs", "pub struct Lite;\npub fn wait() {}\n"),
    ("db/heavy/mod.rs", "pub fn wait() {}\n"),
    (
        "work.rs",
        "mod inner;\nuse crate::low::Event as Happened;\npub use self::inner::*;\npub(crate) use again;\n\
         macro_rules! again { () => {}; }\nfn a() { use crate::db::Lite as Local; }\n",
    ),
    ("work/inner.rs", "pub struct Work;\npub mod hidden {\n    pub struct Deep;\n    fn a() {}\n}\n"),
    ("globs.rs", "pub use crate::globs::*;\npub use super::db::*;\npub use crate::low::Round;\n"),
];

fn resolved(module: &str, path: &str) -> Vec<String> {
    let sources: Vec<_> = FILES.iter().map(|(path, text)| Source::new(&format!("a/src/{path}"), text)).collect();
    let tree = Tree::read(&sources, "a/src");
    let split = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let targets = tree.resolve(tree.module(&split(module)).unwrap(), &split(path));
    let text =
        |target: Target| format!("{}{}", target.module.join("::"), if target.is_module { " itself" } else { "" });
    targets.into_iter().map(text).collect()
}

#[test]
fn modules_are_found_by_their_path() {
    assert_eq!(resolved("low", "crate::db::lite"), ["db::lite itself"]);
    assert_eq!(resolved("low", "crate::db::lite::Lite::open"), ["db::lite"]);
    assert_eq!(resolved("db::lite", "super::heavy::wait"), ["db::heavy"]);
    assert_eq!(resolved("work::inner::hidden", "super::super::super::low::Event"), ["low"]);
    assert_eq!(resolved("work", "self::inner::Work"), ["work::inner"]);
    assert_eq!(resolved("work", "inner::hidden::Deep"), ["work::inner::hidden"]);
}

#[test]
fn names_are_followed_to_where_they_are_defined() {
    assert_eq!(resolved("low", "crate::Store"), ["db::lite"]);
    assert_eq!(resolved("low", "crate::Work"), ["work::inner"]);
    assert_eq!(resolved("low", "crate::hidden::Deep"), ["work::inner::hidden"]);
    assert_eq!(resolved("low", "crate::databases::lite::Lite"), ["db::lite"]);
    assert_eq!(resolved("low", "crate::globs::Lite"), ["db::lite"]);
    assert_eq!(resolved("low", "crate::globs::lite::Lite"), ["db::lite"]);
    assert_eq!(resolved("work::inner", "super::Happened"), ["low"]);
}

#[test]
fn a_name_may_have_several_origins() {
    assert_eq!(resolved("low", "crate::db::wait"), ["db::lite", "db::heavy"]);
    // The macro of the same name belongs to another crate.
    assert_eq!(resolved("work", "crate::Event"), ["low"]);
}

#[test]
fn macros_are_found_where_they_are_defined() {
    assert_eq!(resolved("low", "crate::work::again"), ["work"]);
    assert_eq!(resolved("work", "crate::check"), ["low"]);
}

#[test]
fn other_crates_lead_nowhere() {
    assert_eq!(resolved("low", "db::Lite"), [""; 0]);
    assert_eq!(resolved("low", "std::time::Duration"), [""; 0]);
}

#[test]
fn a_circle_of_names_ends() {
    assert_eq!(resolved("work", "crate::globs::Round"), [""; 0]);
    assert_eq!(resolved("low", "crate::globs::Nowhere"), ["globs"]);
}

#[test]
fn what_a_function_imports_is_its_own() {
    assert_eq!(resolved("work", "Local::open"), ["db::lite"]);
    assert_eq!(resolved("work::inner", "super::Local"), ["work"]);
}
