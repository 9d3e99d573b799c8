//! Rule: a file is named after what it does, so that the next function finds its own place.

use super::{Violation, source::Source};

const GRAB_BAGS: &[&str] = &["common", "helpers", "types", "utils"];

pub(super) fn grab_bag_names(source: &Source) -> Vec<Violation> {
    let name = source.path.strip_suffix("/mod.rs").unwrap_or(source.path.trim_end_matches(".rs"));
    let name = name.rsplit('/').next().unwrap_or(name);
    if source.rust.is_none() || !GRAB_BAGS.contains(&name) {
        return Vec::new();
    }
    let advice = format!("`{name}` says nothing: move each part to the file of its verb");
    vec![Violation::new(source, 1, "grab-bag", advice)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grab_bags_are_refused() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "src/a/types.rs", "src/helpers.rs"] {
            assert_eq!(grab_bag_names(&Source::new(path, "")).len(), 1, "{path}");
        }
    }

    #[test]
    fn other_names_are_allowed() {
        for path in ["src/queue.rs", "src/common/queue.rs", "docs/types.md", "src/mod.rs"] {
            assert!(grab_bag_names(&Source::new(path, "")).is_empty(), "{path}");
        }
    }
}
