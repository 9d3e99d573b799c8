//! The SQL of a store, for people who run it themselves or look at it.

use crate::db::server::{Engine, ServerStore};
#[cfg(feature = "testing")]
use crate::queue::Queue;
use crate::sql::TableNames;
use crate::store::sql::Verbs;

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerStore<E> {
    /// The schema as SQL text, for people with migrations of their own.
    pub(crate) fn schema_text(tables: &TableNames) -> String {
        Verbs::new(E::DIALECT, tables.clone(), None, E::DIALECT.fence).statements.schema
    }

    /// What a claim runs, in order: for a benchmark that looks at its plans.
    #[cfg(feature = "testing")]
    pub fn claim_statements(tables: &TableNames, queue: Queue) -> Vec<String> {
        let verbs = Verbs::new(E::DIALECT, tables.clone(), None, E::DIALECT.fence);
        let statements = verbs.statements.of(queue);
        let texts = [&statements.claim_look, &statements.claim_select, &statements.claim_line];
        texts.map(|text| text.sql().to_string()).to_vec()
    }
}
