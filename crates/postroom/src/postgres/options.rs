//! How to open a PostgreSQL store.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::error::{Error, Result};
use crate::postgres::{PostgresStore, Target};
use crate::server::Settings;
use crate::sql::TableNames;

/// How to open a PostgreSQL store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// let store = postroom::PostgresOptions::new("postgres://app@db.example/shop?sslmode=verify-full")?
///     .deploy_schema(true)
///     .open()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    target: Target,
    settings: Settings,
}

impl PostgresOptions {
    /// A store in the database at `url`. TLS is chosen there: `sslmode=verify-full`.
    pub fn new(url: &str) -> Result<Self> {
        let target = PgConnectOptions::from_str(url)
            .map_err(|source| Error::invalid("this is not a postgres:// URL").caused_by(source))?;
        Ok(Self::with(target))
    }

    /// A store in the database that these options lead to.
    pub fn with(target: PgConnectOptions) -> Self {
        let name = target.get_database().unwrap_or("postgres").to_owned();
        let settings = Settings::new(name, TableNames::infra_schema());
        // Each statement would be formatted for a line nobody reads; what the store does is told by us.
        let options = target.application_name("postroom").disable_statement_logging();
        Self { target: Target { options, is_pooled: false }, settings }
    }

    /// For a pooler that gives each transaction another connection (PgBouncer's transaction mode): statements are not
    /// kept prepared, and nobody listens for wake-ups.
    #[must_use]
    pub fn behind_pooler(mut self) -> Self {
        self.target = Target { options: self.target.options.statement_cache_capacity(0), is_pooled: true };
        (self.settings.notify, self.settings.statements_alone) = (false, false);
        self
    }

    crate::server::shared_options! {
        crate::sql::postgres::NO_FENCE,
        /// What the tables are called: `infra.outbox` and `infra.inbox`.
    }

    /// Connects, and deploys the schema if it is to.
    pub async fn open(self) -> Result<PostgresStore> {
        PostgresStore::open(self.target, self.settings.checked()?).await
    }
}

impl PostgresStore {
    /// The schema as SQL text, for people with migrations of their own.
    pub fn schema(tables: &TableNames) -> String {
        Self::schema_text(tables)
    }
}
