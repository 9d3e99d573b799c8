//! The links of the guides lead somewhere: on a code host, where they are files, and in the documentation.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guides")
}

/// Returns the name and the text of each guide.
fn guides() -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder()).expect("the folder of the guides").flatten().map(|file| file.path());
    let named = files.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path));
    named.map(|(name, path)| (name, read_to_string(path).expect("the text of a guide"))).collect()
}

/// Returns the definitions of links in a text: the label, and where it leads.
fn definitions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let defined = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    defined.filter(|(label, _)| !label.contains(']'))
}

/// Returns the labels that a text uses, in links like `[text][label]`.
fn labels(text: &str) -> BTreeSet<&str> {
    let after = text.split("][").skip(1).filter_map(|rest| rest.split(']').next());
    after.filter(|label| label.contains(['.', '/'])).collect()
}

fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let kept = line.trim_matches(['#', ' ']).chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).eq(anchor.chars())
    })
}

#[test]
fn links_lead_to_files_and_their_headings() {
    for (guide, text) in guides() {
        for (_, target) in definitions(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = folder().join(path);
            assert!(file.exists(), "{guide}: there is no {target}");
            let is_there = anchor.is_empty() || has_heading(&read_to_string(file).unwrap(), anchor);
            assert!(is_there, "{guide}: there is no heading for {target}");
        }
        for anchor in text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(has_heading(&text, anchor), "{guide}: there is no heading for #{anchor}");
        }
    }
}

#[test]
fn links_to_files_are_defined_at_the_end_of_a_guide() {
    for (guide, text) in guides() {
        assert!(
            !text.contains("](../") && !text.contains(".md)"),
            "{guide}: link as [text][file.md], see other guides"
        );
        let defined: BTreeSet<_> = definitions(&text).map(|(label, _)| label).collect();
        assert_eq!(labels(&text), defined, "{guide}: the links, and the definitions at the end");
        for (label, target) in definitions(&text) {
            assert_eq!(label, target.trim_start_matches("../"), "{guide}: a definition is named after its file");
        }
    }
}

#[test]
fn links_lead_to_other_pages_in_the_documentation() {
    let guides = guides();
    let labels: BTreeSet<_> = guides.iter().flat_map(|(_, text)| labels(text)).collect();
    let (to_guides, to_files): (Vec<_>, Vec<_>) = labels.into_iter().partition(|label| label.contains(".md"));
    let to_guides = to_guides.into_iter().map(|label| {
        let (name, anchor) = label.split_once(".md").unwrap();
        format!("[{label}]: ../{}/index.html{anchor}\n", name.replace('-', "_"))
    });
    let repository = env!("CARGO_PKG_REPOSITORY");
    let to_files = to_files.into_iter().map(|label| format!("[{label}]: {repository}/blob/HEAD/{label}\n"));
    let expected: String = to_guides.chain(to_files).collect();
    assert!(include_str!("../src/guides.links") == expected, "src/guides.links must be:\n\n{expected}");
}
