//! Tests that the rule finds files that no `mod` line reaches, and no others.

use super::*;

fn orphans(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    orphan_files(&sources).into_iter().map(|violation| violation.path).collect()
}

#[test]
fn a_file_without_a_mod_line_is_refused() {
    let files = [("a/src/lib.rs", "mod kept;\n// mod lost;\n"), ("a/src/kept.rs", ""), ("a/src/lost.rs", "")];
    assert_eq!(orphans(&files), ["a/src/lost.rs"]);
}

#[test]
fn modules_of_an_orphan_are_orphans() {
    let files = [("a/src/lib.rs", ""), ("a/src/lost.rs", "mod deep;"), ("a/src/lost/deep.rs", "")];
    assert_eq!(orphans(&files), ["a/src/lost.rs", "a/src/lost/deep.rs"]);
}

#[test]
fn modules_are_followed_into_folders() {
    let files = [
        ("a/src/main.rs", "pub(crate) mod one;\nmod two;\n"),
        ("a/src/one.rs", "mod deep;"),
        ("a/src/one/deep.rs", ""),
        ("a/src/two/mod.rs", "#[cfg(test)]\nmod tests;"),
        ("a/src/two/tests.rs", ""),
    ];
    assert_eq!(orphans(&files), [""; 0]);
}

#[test]
fn a_path_may_depend_on_the_platform() {
    let text =
        "#[cfg_attr(unix, path = \"socket.rs\")]\n#[cfg_attr(\n  windows,\n  path = \"pipe.rs\"\n)]\nmod local;\n";
    let files = [("a/src/lib.rs", text), ("a/src/socket.rs", ""), ("a/src/pipe.rs", ""), ("a/src/lost.rs", "")];
    assert_eq!(orphans(&files), ["a/src/lost.rs"]);
}

#[test]
fn inline_modules_and_path_attributes_are_followed() {
    let files = [
        (
            "a/src/lib.rs",
            "mod outer {\n    // é\n    mod inner;\n}\nmod after;\n#[path = \"other/place.rs\"]\nmod moved;\n",
        ),
        ("a/src/outer/inner.rs", ""),
        ("a/src/after.rs", ""),
        ("a/src/other/place.rs", ""),
    ];
    assert_eq!(orphans(&files), [""; 0]);
}

#[test]
fn roots_are_what_cargo_finds_or_is_told() {
    let files = [
        ("a/Cargo.toml", "[[bin]]\npath = \"src/programs/torture.rs\"\n"),
        ("a/build.rs", ""),
        ("a/src/bin/bench.rs", ""),
        ("a/src/programs/torture.rs", "mod beside;"),
        ("a/src/programs/beside.rs", ""),
        ("a/tests/matrix.rs", ""),
        ("a/tests/crash/main.rs", "mod kill;"),
        ("a/tests/crash/kill.rs", ""),
        ("examples/shop.rs", ""),
    ];
    assert_eq!(orphans(&files), [""; 0]);
}

#[test]
fn a_tests_folder_inside_the_source_is_no_root() {
    let files = [("a/src/lib.rs", ""), ("a/src/tests/lost.rs", "")];
    assert_eq!(orphans(&files), ["a/src/tests/lost.rs"]);
}
