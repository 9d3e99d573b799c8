//! How to open a MySQL or MariaDB store.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;

use crate::db::doctor::Report;
use crate::db::mysql::doctor::{self, QUESTIONS};
use crate::db::mysql::{MySql, MySqlStore};
use crate::db::server::connection::Unprinted;
use crate::db::server::{Settings, check_scheme, examine};
use crate::sql::TableNames;
use crate::support::error::{Error, Result};

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
    target: Unprinted<MySqlConnectOptions>,
    settings: Settings,
}

impl MySqlOptions {
    /// A store in the database at `url`. TLS is chosen there: `ssl-mode=VERIFY_IDENTITY`.
    pub fn new(url: &str) -> Result<Self> {
        check_scheme(url, ["mysql", "mariadb"])?;
        let target = MySqlConnectOptions::from_str(url)
            .map_err(|source| Error::invalid("the URL of the database cannot be read").caused_by(source))?;
        Ok(Self::with(target))
    }

    /// A store in the database that these options lead to.
    pub fn with(target: MySqlConnectOptions) -> Self {
        let name = target.get_database().unwrap_or("mysql").to_owned();
        let settings = Settings::new(name, TableNames::infra_prefix());
        // Each statement would be formatted for a line nobody reads; what the store does is told by us.
        Self { target: Unprinted(target.disable_statement_logging()), settings }
    }

    crate::db::server::shared_options! {
        crate::db::mysql::dialect::NO_FENCE,
        /// What the tables are called: `infra_outbox` and `infra_inbox`.
    }

    /// Looks at the server without opening a store: which of its settings can lose messages or hold them up.
    pub async fn examine(self) -> Result<Report> {
        let facts = examine::<MySql>(self.target.clone(), &self.settings, QUESTIONS).await?;
        Ok(doctor::report(self.target.0.get_database().unwrap_or("none"), &facts))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_printed() {
        let options = MySqlOptions::new("mysql://app:hunter2@db.example/shop").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = MySqlOptions::new("app:hunter2@db.example").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}
