//! Tests that items, imports and paths are found in their places.

use super::*;
use crate::tidy::{order::tokens::tokens, source::Source};

fn parsed(text: &str) -> Vec<Module> {
    let source = Source::new("src/a.rs", text);
    modules(&tokens(source.rust.as_ref().unwrap()), vec!["a".to_owned()])
}

fn leaves(text: &str) -> Vec<String> {
    let leaf = |leaf: &Use| match &leaf.as_what {
        Bound::Name(name) => format!("{}:{} as {name}", leaf.line, leaf.segments.join("::")),
        Bound::Nothing => format!("{}:{} as _", leaf.line, leaf.segments.join("::")),
        Bound::Everything => format!("{}:{}::*", leaf.line, leaf.segments.join("::")),
    };
    parsed(text)[0].uses.iter().map(leaf).collect()
}

fn paths(text: &str) -> Vec<String> {
    parsed(text)[0].paths.iter().map(|path| format!("{}:{}", path.line, path.segments.join("::"))).collect()
}

#[test]
fn use_trees_are_taken_apart() {
    let text = "use crate::{\n    a::{self, B, c::D as E},\n    f,\n};\nuse super::super::g::*;\nuse self::h as _;\n";
    assert_eq!(
        leaves(text),
        [
            "2:crate::a as a",
            "2:crate::a::B as B",
            "2:crate::a::c::D as E",
            "3:crate::f as f",
            "5:super::super::g::*",
            "6:self::h as _"
        ]
    );
    assert_eq!(leaves("use ::other::A;\n"), [""; 0]);
}

#[test]
fn imports_in_functions_and_macros_are_found_too() {
    let text = "fn a() {\n    use crate::b::C;\n}\nmacro_rules! d { () => { use $crate::e::F; }; }\n";
    assert_eq!(leaves(text), ["2:crate::b::C as C", "4:crate::e::F as F"]);
    assert!(parsed(text)[0].uses.iter().all(|leaf| leaf.is_local));
    assert_eq!(leaves("fn a<'a>() -> impl B + use<'a> {}\n"), [""; 0]);
}

#[test]
fn paths_are_found_in_code() {
    let text = "fn a(b: crate::c::D<super::E>) {\n    $crate::f::g!(Vec::<u8>::new(), $h::i, self::j::k);\n}\n";
    assert_eq!(paths(text), ["1:crate::c::D", "1:super::E", "2:crate::f::g", "2:self::j::k"]);
    assert_eq!(paths("#[derive(crate::a::B)]\nstruct C;\n"), ["1:crate::a::B"]);
    assert_eq!(paths("fn a() { <B as C>::d(); ::e::f(); }\n"), [""; 0]);
}

#[test]
fn items_have_names_and_are_shown_or_not() {
    let text = "#![allow(x)]\npub struct A(u8);\npub(crate) const fn b() {}\nconst C: D = D {};\n#[doc(hidden)]\n\
                pub unsafe trait E {}\nimpl F {}\nmacro_rules! g { () => {}; }\npub static mut H: u8 = 1;\n\
                #[macro_export]\nmacro_rules! i { () => {}; }\npub mod j;\n";
    let module = parsed(text).remove(0);
    let named = |list: &[Named]| list.iter().map(|named| (named.name.clone(), named.shown)).collect::<Vec<_>>();
    let expected = [
        ("A", Shown::Everybody),
        ("b", Shown::Crate),
        ("C", Shown::Nobody),
        ("E", Shown::Hidden),
        ("g", Shown::Nobody),
        ("H", Shown::Everybody),
    ];
    assert_eq!(named(&module.items), expected.map(|(name, shown)| (name.to_owned(), shown)));
    assert_eq!(named(&module.exported_macros), [("i".to_owned(), Shown::Everybody)]);
    assert_eq!(named(&module.children), [("j".to_owned(), Shown::Everybody)]);
}

#[test]
fn a_module_in_a_file_is_a_module_of_its_own() {
    let found = parsed("mod b {\n    mod c { fn d() {} }\n    use super::E;\n}\nuse f::G;\n");
    let paths: Vec<_> = found.iter().map(|module| module.path.join("::")).collect();
    assert_eq!(paths, ["a", "a::b::c", "a::b"]);
    assert_eq!(found.iter().map(|module| module.uses.len()).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(found.iter().map(|module| module.has_code).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn what_is_for_tests_is_left_out() {
    let found =
        parsed("#[cfg(test)]\nmod tests;\n#[cfg(all(test, unix))]\nuse crate::b::C;\n#[cfg(test)]\nfn d() {}\n");
    assert!(found[0].children.is_empty() && found[0].uses.is_empty() && !found[0].has_code, "{found:?}");
    assert_eq!(found[0].test_children, ["tests"]);
}
