//! How to open a SQL Server store.

use tiberius::Config;

use crate::db::doctor::Report;
use crate::db::mssql::connection_string::{self, ConnectionString};
use crate::db::mssql::doctor::{self, QUESTIONS};
use crate::db::mssql::driver_tiberius_013::MssqlTarget;
use crate::db::mssql::{Mssql, MssqlConnection};
use crate::db::server::{ServerOptions, Settings, examine};
use crate::sql::TableNames;
use crate::support::error::Result;

/// How to open a SQL Server store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// use postroom::mssql::MssqlOptions;
///
/// let store = MssqlOptions::new("mssql://app:secret@db.example/shop")?.deploy_schema(true).open().await?;
/// # Ok(()) }
/// ```
pub type MssqlOptions = ServerOptions<Mssql>;

impl MssqlOptions {
    /// A store in the database at `url`, which may also be a .NET connection string. Connections are encrypted and the
    /// server's certificate is checked, unless the URL or the connection string says otherwise.
    ///
    /// ```
    /// use postroom::mssql::MssqlOptions;
    ///
    /// MssqlOptions::new("mssql://app:p%40ss@db.example:1433/shop?encrypt=strict")?;
    /// MssqlOptions::new("Server=db.example,1433;Database=shop;User Id=app;Password='p@ss';Encrypt=True")?;
    /// // A certificate that a private authority has signed, and one that nobody has: for development alone.
    /// MssqlOptions::new("mssql://app:p%40ss@db.example/shop?trust_server_certificate_ca=/etc/ssl/company.pem")?;
    /// MssqlOptions::new("mssql://app:p%40ss@localhost/shop?trust_server_certificate=true")?;
    /// # Ok::<(), postroom::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        let place = ConnectionString::parse(url)?;
        let name = place.database.clone().unwrap_or_else(|| "mssql".to_owned());
        let may_be_plain = place.may_be_plain();
        let target = MssqlTarget::new(place.config()?, may_be_plain);
        Ok(Self { target, settings: Settings::new(name, TableNames::infra_capitals()) })
    }

    /// Whether [`new`](Self::new) would accept this text: a URL of SQL Server, or a connection string that begins with
    /// one of the settings it knows.
    ///
    /// ```
    /// use postroom::mssql::MssqlOptions;
    ///
    /// assert!(MssqlOptions::recognises("mssql://db.example/shop"));
    /// assert!(MssqlOptions::recognises("User Id=app;Server=db.example"));
    /// assert!(!MssqlOptions::recognises("shop.db"));
    /// ```
    pub fn recognises(text: &str) -> bool {
        connection_string::is_ours(text)
    }

    /// A store in the database that this configuration points to.
    pub fn with(target: Config) -> Self {
        let target = MssqlTarget::new(target, false);
        Self { target, settings: Settings::new("mssql".to_owned(), TableNames::infra_capitals()) }
    }

    /// Opens a connection for your own use, in the same way as the store does.
    pub async fn connect(&self) -> Result<MssqlConnection> {
        self.target.connect().await
    }

    /// Examines the server without opening a store: which of its settings can lose messages or hold them up.
    pub async fn examine(self) -> Result<Report> {
        let facts = Box::pin(examine::<Mssql>(self.target.clone(), &self.settings, QUESTIONS)).await?;
        Ok(doctor::report(&facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_printed() {
        let options = MssqlOptions::new("mssql://app:hunter2@db.example/shop").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = MssqlOptions::new("app:hunter2@db.example").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}
