//! How tables of an older version are carried to the newest.

use crate::sql::steps::{Step, Steps};

pub(super) const STEPS: Steps = Steps {
    begin: "SET XACT_ABORT ON;\nBEGIN TRANSACTION;\nGO\n",
    commit: "GO\nCOMMIT TRANSACTION;\nGO\n",
    list: &[Step {
        to: 2,
        text: include_str!("../schema/0002_places.sql"),
        each: include_str!("../schema/0002_each.sql"),
        atomic: true,
        needs: 2,
        works_from: 2,
    }],
};
