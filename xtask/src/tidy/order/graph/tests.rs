//! Tests that the graph has an edge for each import that leaves an entry, and no others.

use super::*;

const ORDERED: Crate = Crate { folder: "a/src", modules: &["one", "two", "three"] };

fn sources(one: &str, two: &str) -> Vec<Source> {
    let files = [
        ("a/src/lib.rs", "mod one;\nmod two;\nmod three;\nmod list;\npub use three::Three;\n"),
        ("a/src/one.rs", one),
        ("a/src/two.rs", two),
        ("a/src/three.rs", "pub struct Three;\n"),
        ("a/src/list.rs", "pub use crate::{one::One, three::Three};\n"),
    ];
    files.map(|(path, text)| Source::new(path, text)).into()
}

/// Returns the lines of `one.rs` with the entries that they import.
fn imports(one: &str) -> Vec<(usize, &'static str)> {
    let sources = sources(one, "pub fn go() {}\n");
    let graph = Graph::of(&ORDERED, &sources);
    graph.imports.iter().map(|import| (import.line, ORDERED.modules[import.to])).collect()
}

#[test]
fn imports_of_one_entry_in_one_line_are_one() {
    assert_eq!(imports("use crate::two::{go, come};\nfn a() {}\n"), [(1, "two")]);
    assert_eq!(imports("use crate::{\n    three::A,\n    two::B,\n};\nfn a() {}\n"), [(2, "three"), (3, "two")]);
}

#[test]
fn an_entry_may_import_itself() {
    assert_eq!(imports("use crate::one::A;\nuse super::one;\nfn a() { self::b(); }\n"), []);
}

#[test]
fn a_glob_is_an_import_of_the_module_and_of_all_that_a_list_lists() {
    assert_eq!(imports("use crate::two::*;\nfn a() {}\n"), [(1, "two")]);
    assert_eq!(imports("use crate::*;\nfn a() {}\n"), [(1, "three")]);
    assert_eq!(imports("use crate::list::*;\nfn a() {}\n"), [(1, "three")]);
}

#[test]
fn an_imported_module_is_counted_where_it_is_imported() {
    assert_eq!(imports("use crate::two;\nfn a() {\n    two::go();\n}\n"), [(1, "two")]);
    assert_eq!(imports("use crate::list;\nfn a() {\n    list::Three::go();\n}\n"), [(3, "three")]);
}

#[test]
fn edges_are_pairs_and_those_upward_are_known() {
    let sources = sources("use crate::two::A;\nuse crate::two::B;\nfn a() {}\n", "use crate::one::C;\nfn a() {}\n");
    let graph = Graph::of(&ORDERED, &sources);
    assert_eq!(graph.edges().into_iter().collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    assert_eq!(graph.upward().map(|import| import.line).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(graph.cycles(), [["one", "two"]]);
}

#[test]
fn two_cycles_are_two() {
    let modules = &["a", "b", "c", "d", "e"];
    let edge = |from, to| Import { path: "", line: 1, from, to };
    let imports = [edge(0, 3), edge(3, 0), edge(1, 2), edge(2, 1), edge(0, 1), edge(4, 0)].into();
    let graph = Graph { modules, imports, without_place: Vec::new(), without_file: Vec::new() };
    assert_eq!(graph.cycles(), [["a", "d"], ["b", "c"]]);
}
