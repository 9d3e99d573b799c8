//! How to open a PostgreSQL store.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::db::doctor::Report;
use crate::db::postgres::dialect::FOR_VERBS;
use crate::db::postgres::doctor::{self, QUESTIONS};
use crate::db::postgres::driver_sqlx_09::PgTarget;
use crate::db::postgres::{Postgres, PostgresStore};
use crate::db::server::connection::Unprinted;
use crate::db::server::{Settings, check_scheme, examine};
use crate::sql::TableNames;
use crate::support::error::{Error, Result};

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
    target: PgTarget,
    settings: Settings,
}

impl PostgresOptions {
    /// A store in the database at `url`. TLS is chosen there: `sslmode=verify-full`; and `pooler=true` stands for
    /// [`behind_pooler`](Self::behind_pooler).
    pub fn new(url: &str) -> Result<Self> {
        check_scheme(url, ["postgres", "postgresql"])?;
        let (url, is_pooled) = without_pooler(url);
        let target = PgConnectOptions::from_str(&url)
            .map_err(|source| Error::invalid("the URL of the database cannot be read").caused_by(source))?;
        let options = Self::with(target);
        Ok(if is_pooled { options.behind_pooler() } else { options })
    }

    /// A store in the database that these options lead to.
    pub fn with(target: PgConnectOptions) -> Self {
        let name = target.get_database().unwrap_or("postgres").to_owned();
        let settings = Settings::new(name, TableNames::infra_schema());
        // Each statement would be formatted for a line nobody reads; what the store does is told by us.
        let options = Unprinted(target.application_name("postroom").disable_statement_logging());
        Self { target: PgTarget { options, is_pooled: false }, settings }
    }

    /// For a pooler that gives each transaction another connection (PgBouncer's transaction mode): statements are not
    /// kept prepared, and nobody listens for wake-ups, so workers in other processes look twice a second.
    #[must_use]
    pub fn behind_pooler(mut self) -> Self {
        // Without a number of digits to ask for: PgBouncer refuses settings at the start that it does not know.
        self.target.options.0 = self.target.options.0.statement_cache_capacity(0).extra_float_digits(None);
        self.target.is_pooled = true;
        (self.settings.notify, self.settings.statements_alone) = (false, false);
        self
    }

    crate::db::server::shared_options! {
        crate::db::postgres::dialect::NO_FENCE,
        /// What the tables are called: `infra.outbox` and `infra.inbox`.
    }

    /// Looks at the server without opening a store: which of its settings can lose messages or hold them up.
    pub async fn examine(self) -> Result<Report> {
        // Whatever was declared: a pooler that nobody knows of must not get in the way of the questions.
        let target = PgTarget { is_pooled: true, ..self.target.clone() };
        let facts = examine::<Postgres>(target, &self.settings, QUESTIONS).await?;
        Ok(doctor::report(self.target.options.0.get_database().unwrap_or("postgres"), &facts))
    }

    /// Connects, and deploys the schema if it is to.
    pub async fn open(self) -> Result<PostgresStore> {
        PostgresStore::open(self.target, self.settings.checked()?).await
    }
}

/// The URL without what it says of a pooler: that is for us, and not for the driver.
fn without_pooler(url: &str) -> (String, bool) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), false) };
    let (ours, others): (Vec<_>, Vec<_>) = query.split('&').partition(|pair| pair.starts_with("pooler="));
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    (format!("{address}{query}"), ours.contains(&"pooler=true"))
}

impl PostgresStore {
    /// The schema as SQL text, for people with migrations of their own.
    pub fn schema(tables: &TableNames) -> String {
        Self::schema_text(tables)
    }

    /// The settings of connections for its own statements: for a test that looks at their plans.
    #[cfg(feature = "testing")]
    pub fn settings_for_verbs() -> &'static [(&'static str, &'static str)] {
        &FOR_VERBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_can_tell_of_a_pooler() {
        for (url, is_pooled) in [
            ("postgres://app@db.example/shop", false),
            ("postgres://app@db.example/shop?pooler=true", true),
            ("postgres://app@db.example/shop?sslmode=require&pooler=true&user=me", true),
            ("postgres://app@db.example/shop?pooler=false", false),
        ] {
            let options = PostgresOptions::new(url).unwrap();
            assert_eq!((options.target.is_pooled, options.settings.statements_alone), (is_pooled, !is_pooled), "{url}");
        }
        let (plain, _) = without_pooler("postgres://a@b/c?sslmode=require&pooler=true&user=me");
        assert_eq!(plain, "postgres://a@b/c?sslmode=require&user=me");
    }

    #[test]
    fn the_password_is_never_printed() {
        let options = PostgresOptions::new("postgres://app:hunter2@db.example/shop?password=hunter2").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = PostgresOptions::new("app:hunter2@db.example").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}
