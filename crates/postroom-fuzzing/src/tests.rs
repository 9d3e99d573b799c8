//! The inputs that were worth keeping, on every test run.

use std::fs;
use std::path::PathBuf;

use super::TARGETS;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

fn names(folder: &str) -> Vec<PathBuf> {
    let folder = format!("{FUZZ}/{folder}");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

#[test]
fn no_input_that_was_kept_breaks_a_promise() {
    for (name, check) in TARGETS {
        let files = names(&format!("corpus/{name}"));
        assert!(files.len() >= 5, "only {} inputs for {name}", files.len());
        for file in files {
            // Shown only when it fails.
            println!("{}", file.display());
            check(&fs::read(file).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_fuzzer_and_inputs_and_nobody_else_has() {
    let expected = TARGETS.map(|(name, _)| name);
    for folder in ["fuzz_targets", "corpus"] {
        let files = names(folder);
        let stems: Vec<_> = files.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
        assert_eq!(stems, expected, "{folder}");
    }
}
