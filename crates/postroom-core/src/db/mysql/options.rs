//! How to open a MySQL or MariaDB store.

use std::str::FromStr;

use sqlx::MySqlPool;
use sqlx::mysql::MySqlConnectOptions;

use crate::db::doctor::Report;
use crate::db::mysql::MySql;
use crate::db::mysql::doctor::{self, QUESTIONS};
use crate::db::server::{ServerOptions, Settings, check_scheme, examine};
use crate::db::sqlx_09::Reach;
use crate::sql::TableNames;
use crate::support::error::{Error, Result};

/// How to open a MySQL or MariaDB store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// let store = postroom::mysql::MySqlOptions::new("mysql://app@db.example/shop?ssl-mode=VERIFY_IDENTITY")?
///     .deploy_schema(true)
///     .open()
///     .await?;
/// # Ok(()) }
/// ```
pub type MySqlOptions = ServerOptions<MySql>;

impl MySqlOptions {
    /// A store in the database at `url`. The URL also chooses TLS: `ssl-mode=VERIFY_IDENTITY`.
    pub fn new(url: &str) -> Result<Self> {
        check_scheme(url, ["mysql", "mariadb"])?;
        let target = MySqlConnectOptions::from_str(url)
            .map_err(|source| Error::invalid("the URL of the database cannot be read").caused_by(source))?;
        Ok(Self::with(target))
    }

    /// A store in the database that these options point to.
    pub fn with(target: MySqlConnectOptions) -> Self {
        Self::reaching(Reach::Told(target))
    }

    /// A store in the database of the caller's pool. Host, credentials and TLS are those of the pool, read again
    /// whenever a connection is opened. Give rotated credentials to the pool
    /// ([`set_connect_options`](sqlx::Pool::set_connect_options)), and the store uses them too.
    ///
    /// The store does not borrow connections from the pool. It opens its own: one for each handler that is writing, at
    /// most [`connections`](Self::connections); and two to six for its own statements, so that a lease is renewed in
    /// time even when handlers have used up everything else. These connections have their own settings, so the pool's
    /// hooks, for example `after_connect`, do not run on them.
    ///
    /// ```no_run
    /// # async fn open(pool: sqlx::MySqlPool) -> postroom::Result<()> {
    /// let store = postroom::mysql::MySqlOptions::from_pool(&pool).connections(4).open().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_pool(pool: &MySqlPool) -> Self {
        Self::reaching(Reach::Like(pool.clone()))
    }

    fn reaching(target: Reach<sqlx::MySql>) -> Self {
        let name = target.options().get_database().unwrap_or("mysql").to_owned();
        Self { target, settings: Settings::new(name, TableNames::infra_prefix()) }
    }

    /// Examines the server without opening a store: which of its settings can lose messages or hold them up.
    pub async fn examine(self) -> Result<Report> {
        let facts = examine::<MySql>(self.target.clone(), &self.settings, QUESTIONS).await?;
        Ok(doctor::report(self.target.options().get_database().unwrap_or("none"), &facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_anew_from_the_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let first: MySqlConnectOptions = "mysql://app:hunter2@db.example/shop".parse().unwrap();
        let pool = sqlx::mysql::MySqlPoolOptions::new().connect_lazy_with(first.clone());
        let options = MySqlOptions::from_pool(&pool);
        assert_eq!(options.settings.name, "shop");
        assert!(!format!("{options:?}").contains("hunter2"));
        pool.set_connect_options(first.database("elsewhere").username("rotated"));
        assert_eq!(options.target.options().get_database(), Some("elsewhere"));
    }

    #[test]
    fn the_password_is_never_printed() {
        let options = MySqlOptions::new("mysql://app:hunter2@db.example/shop").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = MySqlOptions::new("app:hunter2@db.example").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}
