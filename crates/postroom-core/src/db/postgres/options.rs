//! How to open a PostgreSQL store.

use std::str::FromStr;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::db::doctor::Report;
use crate::db::postgres::doctor::{self, QUESTIONS};
use crate::db::postgres::driver_sqlx_09::PgTarget;
use crate::db::postgres::{Postgres, PostgresStore};
use crate::db::server::{ServerOptions, Settings, check_scheme, examine};
use crate::db::sqlx_09::Reach;
use crate::sql::TableNames;
use crate::support::error::{Error, Result};

/// How to open a PostgreSQL store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// let store = postroom::postgres::PostgresOptions::new("postgres://app@db.example/shop?sslmode=verify-full")?
///     .deploy_schema(true)
///     .open()
///     .await?;
/// # Ok(()) }
/// ```
pub type PostgresOptions = ServerOptions<Postgres>;

impl PostgresOptions {
    /// A store in the database at `url`. The URL also chooses TLS: `sslmode=verify-full`; and `pooler=true` has the
    /// same effect as [`behind_pooler`](Self::behind_pooler).
    pub fn new(url: &str) -> Result<Self> {
        check_scheme(url, ["postgres", "postgresql"])?;
        let (url, is_pooled) = without_pooler(url);
        let target = PgConnectOptions::from_str(&url)
            .map_err(|source| Error::invalid("the URL of the database cannot be read").caused_by(source))?;
        let options = Self::with(target);
        Ok(if is_pooled { options.behind_pooler() } else { options })
    }

    /// A store in the database that these options point to.
    pub fn with(target: PgConnectOptions) -> Self {
        Self::reaching(Reach::Told(target))
    }

    /// A store in the database of the caller's pool. Host, credentials and TLS are those of the pool, read again
    /// whenever a connection is opened. Give rotated credentials to the pool
    /// ([`set_connect_options`](sqlx::Pool::set_connect_options)), and the store uses them too.
    ///
    /// The store does not borrow connections from the pool. It opens its own: one for each handler that is writing, at
    /// most [`connections`](Self::connections); two to six for its own statements, so that a lease is renewed in time
    /// even when handlers have used up everything else; and one that listens for notifications from other processes.
    /// These connections have their own settings, so the pool's hooks, for example `after_connect`, do not run on them.
    ///
    /// ```no_run
    /// # async fn open(pool: sqlx::PgPool) -> postroom::Result<()> {
    /// let store = postroom::postgres::PostgresOptions::from_pool(&pool).connections(4).open().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_pool(pool: &PgPool) -> Self {
        Self::reaching(Reach::Like(pool.clone()))
    }

    fn reaching(reach: Reach<sqlx::Postgres>) -> Self {
        let target = PgTarget { reach, is_pooled: false };
        let settings = Settings::new(database_of(&target), TableNames::infra_schema());
        Self { target, settings }
    }

    /// For a pooler that gives each transaction another connection (PgBouncer's transaction mode): statements are not
    /// kept prepared, and the store does not listen for wake-ups, so workers in other processes poll twice a second.
    #[must_use]
    pub fn behind_pooler(mut self) -> Self {
        self.target.is_pooled = true;
        (self.settings.notify, self.settings.statements_alone) = (false, false);
        self
    }

    /// Examines the server without opening a store: which of its settings can lose messages or hold them up.
    pub async fn examine(self) -> Result<Report> {
        // In any case: an undeclared pooler must not get in the way of the questions.
        let target = PgTarget { is_pooled: true, ..self.target };
        let database = database_of(&target);
        let facts = examine::<Postgres>(target, &self.settings, QUESTIONS).await?;
        Ok(doctor::report(&database, &facts))
    }
}

fn database_of(target: &PgTarget) -> String {
    target.reach.options().get_database().unwrap_or("postgres").to_owned()
}

/// The URL without its `pooler` parameter, which is for us and not for the driver, and whether that was set.
fn without_pooler(url: &str) -> (String, bool) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), false) };
    let (ours, others): (Vec<_>, Vec<_>) = query.split('&').partition(|pair| pair.starts_with("pooler="));
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    (format!("{address}{query}"), ours.contains(&"pooler=true"))
}

impl PostgresStore {
    /// The settings of connections for our own statements, for a test that examines their plans.
    #[cfg(feature = "testing")]
    pub fn settings_for_verbs() -> &'static [(&'static str, &'static str)] {
        &crate::db::postgres::dialect::FOR_VERBS
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
    fn credentials_are_read_anew_from_the_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let first: PgConnectOptions = "postgres://app:hunter2@db.example/shop".parse().unwrap();
        let pool = sqlx::postgres::PgPoolOptions::new().connect_lazy_with(first.clone());
        let options = PostgresOptions::from_pool(&pool).behind_pooler();
        assert_eq!(options.settings.name, "shop");
        assert!(!format!("{options:?}").contains("hunter2"));
        let clone = options.target.clone();
        pool.set_connect_options(first.username("rotated"));
        for target in [options.target, clone] {
            assert_eq!((target.options().get_username(), target.options().get_host()), ("rotated", "db.example"));
        }
    }

    #[test]
    fn the_password_is_never_printed() {
        let options = PostgresOptions::new("postgres://app:hunter2@db.example/shop?password=hunter2").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = PostgresOptions::new("app:hunter2@db.example").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}
