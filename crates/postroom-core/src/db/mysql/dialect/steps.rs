//! How tables of an older version are carried to the newest.

use crate::sql::steps::{Step, Steps};

/// Creating or changing a table commits, so no step is a transaction.
pub(super) const STEPS: Steps = Steps {
    begin: "",
    commit: "",
    list: &[Step {
        to: 2,
        text: include_str!("../schema/0002_places.sql"),
        each: include_str!("../schema/0002_each.sql"),
        atomic: false,
        needs: 2,
        works_from: 2,
    }],
};
