//! The texts of a store's statements, for tests and benchmarks that ask the server for their plans.

use crate::db::server::{Engine, ServerStore};
use crate::queue::Queue;
use crate::sql::TableNames;
use crate::store::sql::SqlVerbs;

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerStore<E> {
    /// Every statement of a queue by its name; the text is empty if the dialect does not use the statement.
    pub fn statement_texts(tables: &TableNames, queue: Queue) -> Vec<(&'static str, String)> {
        let verbs = SqlVerbs::new(E::DIALECT, tables.clone(), None, E::DIALECT.fence);
        verbs.statements.of(queue).named()
    }
}
