//! The SQL of a store's schema, for people who run it themselves, read it, or undo it.

use crate::db::server::{Engine, ServerConnection, ServerStore};
use crate::sql::TableNames;
use crate::sql::steps::Way;
use crate::store::Store;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::run_to_completion;

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerStore<E> {
    /// The schema as SQL text, for people with their own migrations. On SQL Server it has procedures, and `GO` ends
    /// each batch, as sqlcmd and other tools require.
    pub fn schema(tables: &TableNames) -> String {
        Way::new(E::DIALECT, tables).schema()
    }

    /// Drops the schema that the tables are in, with everything in it, and closes the store. It is meant for throwaway
    /// tables. On MySQL, which has no such schemas, it drops only the store's own tables and procedures.
    #[doc(hidden)]
    pub async fn drop_schema(self) -> Result<()> {
        if self.0.verbs.tables.schema().is_none()
            && E::DIALECT.schema_drop.is_some_and(|drop| drop.contains("{schema}"))
        {
            return Err(Error::new(ErrorKind::Unsupported, "the tables do not have their own schema"));
        }
        let core = self.0.clone();
        let dropped = run_to_completion(async move {
            let mut link = core.pool.get().await?;
            link.begin_deploy(true).await?;
            link.run_text(&core.verbs.statements.schema_drop).await?;
            link.end_deploy(true).await?;
            link.give_back();
            Ok(())
        });
        let dropped = dropped.await;
        Store::close(&self).await;
        dropped
    }
}

#[cfg(all(test, feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
mod tests {
    use super::*;
    use crate::store::sql::SqlVerbs;
    use crate::{Mssql, MySql};

    /// The tables and procedures that a text creates or drops.
    fn objects(text: &str, word: &str) -> Vec<String> {
        let kinds = ["TABLE ", "PROCEDURE "];
        let rest = text.split(word).skip(1).filter_map(|rest| kinds.iter().find_map(|kind| rest.strip_prefix(kind)));
        let name = |rest: &str| {
            let name = rest.trim_start_matches("IF NOT EXISTS ");
            name.split(|c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c)).next().unwrap_or_default().to_owned()
        };
        let mut names: Vec<_> = rest.map(name).collect();
        names.sort();
        names.dedup();
        names
    }

    fn assert_undone<E: Engine>(tables: &TableNames) {
        let statements = SqlVerbs::new(E::DIALECT, tables.clone(), None, E::DIALECT.fence).statements;
        let created = objects(&ServerStore::<E>::schema(tables), "CREATE ");
        assert!(created.len() > 10, "{created:?}");
        assert_eq!(objects(&statements.schema_drop, "DROP "), created);
    }

    #[test]
    fn everything_that_is_created_is_dropped() {
        assert_undone::<MySql>(&TableNames::new("x_outbox", "x_inbox").unwrap());
        assert_undone::<Mssql>(&TableNames::infra_capitals());
    }
}
