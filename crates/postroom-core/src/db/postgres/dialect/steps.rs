//! How tables of an older version are carried to the newest.

use crate::sql::steps::{Step, Steps};

pub(crate) const STEPS: Steps = Steps {
    begin: "BEGIN;\nSELECT pg_advisory_xact_lock(7305521903);\n",
    commit: "COMMIT;\n",
    list: &[Step {
        to: 2,
        text: include_str!("../schema/0002_places.sql"),
        each: include_str!("../schema/0002_each.sql"),
        atomic: true,
        needs: 2,
        works_from: 2,
    }],
};
