//! How to open a MySQL or MariaDB store.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;

use crate::error::{Error, Result};
use crate::mysql::MySqlStore;
use crate::server::Settings;
use crate::sql::TableNames;

/// How to open a MySQL or MariaDB store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// let store = postroom::MySqlOptions::new("mysql://app@db.example/shop?ssl-mode=VERIFY_IDENTITY")?
///     .deploy_schema(true)
///     .open()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MySqlOptions {
    target: MySqlConnectOptions,
    settings: Settings,
}

impl MySqlOptions {
    /// A store in the database at `url`. TLS is chosen there: `ssl-mode=VERIFY_IDENTITY`.
    pub fn new(url: &str) -> Result<Self> {
        let target = MySqlConnectOptions::from_str(url)
            .map_err(|source| Error::invalid("this is not a mysql:// URL").caused_by(source))?;
        Ok(Self::with(target))
    }

    /// A store in the database that these options lead to.
    pub fn with(target: MySqlConnectOptions) -> Self {
        let name = target.get_database().unwrap_or("mysql").to_owned();
        let settings = Settings::new(name, TableNames::infra_prefix());
        // Each statement would be formatted for a line nobody reads; what the store does is told by us.
        Self { target: target.disable_statement_logging(), settings }
    }

    crate::server::shared_options! {
        crate::sql::mysql::NO_FENCE,
        /// What the tables are called: `infra_outbox` and `infra_inbox`.
    }

    /// Connects, and deploys the schema if it is to.
    pub async fn open(self) -> Result<MySqlStore> {
        MySqlStore::open(self.target, self.settings.checked()?).await
    }
}

impl MySqlStore {
    /// The schema as SQL text, for people with migrations of their own.
    pub fn schema(tables: &TableNames) -> String {
        Self::schema_text(tables)
    }
}
