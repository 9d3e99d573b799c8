//! Carries the tables on a server to another version.

use crate::db::server::{Engine, Purpose, ServerConnection, ServerOptions};
use crate::sql::Migration;
use crate::sql::steps::{Found, Way};
use crate::store::sql::SqlVerbs;
use crate::support::crash::crash_here;
use crate::support::error::Result;
use crate::support::task::run_to_completion;

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerOptions<E> {
    /// Returns what [`migrate`](Self::migrate) would do. Nothing is changed.
    pub async fn migration(self, to: Option<i64>) -> Result<Migration> {
        self.reach(to, false).await
    }

    /// Carries the tables to this version, or to the newest one, and creates them if there are none. No store is
    /// opened. Returns what was done.
    pub async fn migrate(self, to: Option<i64>) -> Result<Migration> {
        self.reach(to, true).await
    }

    /// Carries the tables one version further than this program knows, by a step that is no transaction, for a test.
    /// Programs of this version can go on.
    #[cfg(feature = "testing")]
    pub async fn migrate_by(self, text: &str) -> Result<Migration> {
        let way = Way::new(E::DIALECT, &self.settings.tables).followed_by(text, &self.settings.tables);
        self.go(way, None, true).await
    }

    async fn reach(self, to: Option<i64>, change: bool) -> Result<Migration> {
        let way = Way::new(E::DIALECT, &self.settings.tables);
        self.go(way, to, change).await
    }

    async fn go(self, way: Way, to: Option<i64>, change: bool) -> Result<Migration> {
        let (target, settings) = (self.target, self.settings.checked()?);
        let work = run_to_completion(async move {
            let verbs = SqlVerbs::new(E::DIALECT, settings.tables.clone(), None, E::DIALECT.fence);
            let mut link = E::connect(&target, Purpose::Handlers).await?;
            link.patience().limit = settings.patience;
            link.hello().await?;
            let ahead = way.told(version(&mut link, &verbs).await?, to)?;
            if change {
                migrate(&mut link, &verbs, &way, to).await?;
            }
            Ok(ahead)
        });
        Box::pin(work).await
    }
}

/// Brings the tables to a version, step by step. Returns the version that they have then.
pub(super) async fn migrate(
    link: &mut impl ServerConnection,
    verbs: &SqlVerbs,
    way: &Way,
    to: Option<i64>,
) -> Result<Option<Found>> {
    loop {
        // Tables that are up to date are not touched: even `IF NOT EXISTS` takes locks, which would block other
        // transactions on the tables and wait for them.
        let found = version(link, verbs).await?;
        let Some(change) = way.plan(found, to)?.first() else { return Ok(found) };
        link.begin_deploy(change.atomic).await?;
        // Another program may have done it while this one waited for its turn.
        if verbs.schema_version(link).await? == found {
            link.run_text(&change.text).await?;
            crash_here("in the middle of a migration");
        }
        link.end_deploy(change.atomic).await?;
    }
}

/// The version of the tables, read in a transaction: behind a pooler, only a transaction stays on one connection.
pub(super) async fn version(link: &mut impl ServerConnection, verbs: &SqlVerbs) -> Result<Option<Found>> {
    link.begin().await?;
    let found = verbs.schema_version(link).await?;
    link.roll_back().await?;
    Ok(found)
}
