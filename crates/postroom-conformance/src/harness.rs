//! What a case stands on: a fresh store, a clock that is set by hand, and the two queues seen alike.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use postroom::clock::{Clock, ManualClock, Timestamp};
use postroom::handler::Backend;
use postroom::mssql::{Mssql, MssqlOptions, MssqlStore};
use postroom::mysql::{MySql, MySqlOptions, MySqlStore};
use postroom::operator::{Filter, Record};
use postroom::postgres::{Postgres, PostgresOptions, PostgresStore};
use postroom::queue::{Queue, State};
use postroom::sql::TableNames;
use postroom::sqlite::{Sqlite, SqliteOptions};
use postroom::store::{Memory, MemoryStore, Store};
use postroom::{Inbox, Outbox};
use sqlx::{MySqlConnection, PgConnection};
use tempfile::TempDir;

use crate::case::{Setup, Verdict};
use crate::servers::Client;
pub use crate::side::{Draft, Side};
pub use crate::wait::{eventually, readable, refused, soon};
use crate::{capture, meters, mssql, servers};

/// When every case begins: 2026-02-14 12:00 UTC.
pub const START: Timestamp = Timestamp::from_micros(1_771_070_400_000_000);
/// The lease of a claim that does not say otherwise.
pub const LEASE: Duration = Duration::from_secs(30);

/// A backend with all that differs about it in tests.
pub trait Testable: Backend {
    /// What it is called in the matrix.
    const NAME: &'static str;

    /// Opens an empty store in its own folder, or opens what is already there.
    fn open(place: &Place) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Removes what [`open`](Self::open) left outside the folder.
    fn clean(_: &Place) -> impl Future<Output = anyhow::Result<()>> + Send {
        async { Ok(()) }
    }

    /// Returns the messages that stand in no place or in two, by queue and number.
    fn misplaced(_: &Place) -> impl Future<Output = anyhow::Result<Vec<String>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Opens another store on what is there: closing it does not close `store`.
    fn open_again(_store: &Self::Store, place: &Place) -> impl Future<Output = postroom::Result<Self::Store>> + Send {
        Self::open(place)
    }
}

/// Where a store may put its files, and what it is called.
#[derive(Debug)]
pub struct Place {
    dir: TempDir,
    name: String,
    clock: ManualClock,
    pooled: bool,
}

impl Place {
    fn new(name: String, clock: ManualClock, pooled: bool) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("postroom-").tempdir().context("no temporary folder")?;
        Ok(Self { dir, name, clock, pooled })
    }

    /// What the store is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path in the case's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A name no other case has, on a server all share.
    pub fn own_name(&self) -> String {
        format!("pr_{}_{}", std::process::id(), self.name.replace('-', "_"))
    }

    /// The case's clock, for a store.
    pub fn clock(&self) -> Clock {
        Clock::Manual(self.clock.clone())
    }

    /// How the case's schema on PostgreSQL is opened.
    pub fn postgres_options(&self) -> postroom::Result<PostgresOptions> {
        let server = if self.pooled { servers::POOLER } else { servers::POSTGRES };
        self.postgres_options_at(&servers::url(server))
    }

    /// The same by another way to the server.
    pub fn postgres_options_at(&self, url: &str) -> postroom::Result<PostgresOptions> {
        let tables = TableNames::new("outbox", "inbox")?.in_schema(self.own_name())?;
        let options = PostgresOptions::new(url)?.name(&self.name).tables(tables);
        let options = if self.pooled { options.behind_pooler() } else { options };
        Ok(options.deploy_schema(true).clock(self.clock()))
    }

    /// How the case's database on MariaDB or MySQL is opened.
    pub fn mysql_options(&self) -> postroom::Result<MySqlOptions> {
        self.mysql_options_at(&servers::url(servers::MYSQL))
    }

    /// The same by another way to the server.
    pub fn mysql_options_at(&self, url: &str) -> postroom::Result<MySqlOptions> {
        let options = MySqlOptions::new(&servers::with_database(url, &self.own_name()))?.name(&self.name);
        Ok(options.deploy_schema(true).clock(self.clock()))
    }

    /// How the case's schema on SQL Server is opened.
    pub fn mssql_options(&self) -> postroom::Result<MssqlOptions> {
        self.mssql_options_at(&servers::url(servers::MSSQL))
    }

    /// The same by another way to the server.
    pub fn mssql_options_at(&self, url: &str) -> postroom::Result<MssqlOptions> {
        // By its application's name the server tells the case's connections from others.
        let url = format!("{url}{}application_name={}", if url.contains('?') { '&' } else { '?' }, self.own_name());
        let options = MssqlOptions::new(&url)?.name(&self.name).tables(self.mssql_tables()?);
        Ok(options.deploy_schema(true).clock(self.clock()))
    }

    /// The case's tables on SQL Server.
    fn mssql_tables(&self) -> postroom::Result<TableNames> {
        TableNames::new("outbox", "inbox")?.in_schema(self.own_name())
    }

    /// How the case's SQLite file is opened.
    pub fn sqlite_options(&self) -> SqliteOptions {
        let options = SqliteOptions::new(self.path("store.db")).name(&self.name).deploy_schema(true);
        options.clock(self.clock())
    }
}

impl Testable for Memory {
    const NAME: &'static str = "memory";

    async fn open(place: &Place) -> postroom::Result<MemoryStore> {
        Ok(MemoryStore::with_clock(Clock::Manual(place.clock.clone())).named(&place.name))
    }

    async fn open_again(store: &MemoryStore, _: &Place) -> postroom::Result<MemoryStore> {
        Ok(store.clone())
    }
}

impl Testable for Sqlite {
    const NAME: &'static str = "sqlite";

    async fn open(place: &Place) -> postroom::Result<postroom::sqlite::SqliteStore> {
        place.sqlite_options().open().await
    }

    async fn misplaced(place: &Place) -> anyhow::Result<Vec<String>> {
        let path = place.path("store.db");
        let views = "SELECT name FROM sqlite_master WHERE type = 'view' AND name LIKE '%_misplaced'";
        // A case may have damaged the file, or taken its tables away.
        let Ok(conn) = rusqlite::Connection::open(&path) else { return Ok(Vec::new()) };
        let names: rusqlite::Result<Vec<String>> =
            conn.prepare(views).and_then(|mut views| views.query_map([], |row| row.get(0))?.collect());
        let mut found = Vec::new();
        for name in names.unwrap_or_default() {
            let read =
                |row: &rusqlite::Row<'_>| Ok(format!("{name}: {} {}", row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let rows = conn
                .prepare(&format!("SELECT seq, places FROM {name}"))
                .and_then(|mut select| select.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>());
            found.extend(rows.unwrap_or_default());
        }
        Ok(found)
    }
}

impl Testable for Postgres {
    const NAME: &'static str = "postgres";

    async fn open(place: &Place) -> postroom::Result<PostgresStore> {
        place.postgres_options()?.open().await
    }

    async fn misplaced(place: &Place) -> anyhow::Result<Vec<String>> {
        let views = format!(
            "SELECT table_schema || '.' || table_name FROM information_schema.views
             WHERE table_schema = '{}' AND table_name LIKE '%\\_misplaced'",
            place.own_name()
        );
        let mut client = PgConnection::reach(&servers::url(servers::POSTGRES)).await?;
        let mut found = Vec::new();
        for view in client.ask(&views).await?.concat() {
            let rows = client.ask(&format!("SELECT seq::text, places::text FROM {view}")).await?;
            found.extend(rows.into_iter().map(|row| format!("{view}: {}", row.join(" "))));
        }
        Ok(found)
    }

    async fn clean(place: &Place) -> anyhow::Result<()> {
        servers::tell::<PgConnection>(servers::POSTGRES, &format!("DROP SCHEMA IF EXISTS {} CASCADE", place.own_name()))
            .await
    }
}

impl Testable for MySql {
    const NAME: &'static str = "mariadb";

    async fn open(place: &Place) -> postroom::Result<MySqlStore> {
        let create = format!("CREATE DATABASE IF NOT EXISTS {}", place.own_name());
        servers::tell::<MySqlConnection>(servers::MYSQL, &create).await.map_err(postroom::Error::callback)?;
        place.mysql_options()?.open().await
    }

    async fn misplaced(place: &Place) -> anyhow::Result<Vec<String>> {
        let views = format!(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.views
             WHERE table_schema = '{}' AND table_name LIKE '%\\_misplaced'",
            place.own_name()
        );
        let mut client = MySqlConnection::reach(&servers::url(servers::MYSQL)).await?;
        let mut found = Vec::new();
        for view in client.ask(&views).await?.concat() {
            let select = format!("SELECT CAST(seq AS CHAR), CAST(places AS CHAR) FROM {view}");
            // A case may have taken its tables away.
            let rows = client.ask(&select).await.unwrap_or_default();
            found.extend(rows.into_iter().map(|row| format!("{view}: {}", row.join(" "))));
        }
        Ok(found)
    }

    async fn clean(place: &Place) -> anyhow::Result<()> {
        servers::tell::<MySqlConnection>(servers::MYSQL, &format!("DROP DATABASE IF EXISTS {}", place.own_name())).await
    }
}

impl Testable for Mssql {
    const NAME: &'static str = "mssql";

    async fn open(place: &Place) -> postroom::Result<MssqlStore> {
        let schema = MssqlStore::schema(&place.mssql_tables()?);
        mssql::chore(schema).await.map_err(postroom::Error::callback)?;
        place.mssql_options()?.open().await
    }

    /// Its schema is there: made anew, it would be without procedures for a moment.
    async fn open_again(_: &MssqlStore, place: &Place) -> postroom::Result<MssqlStore> {
        place.mssql_options()?.open().await
    }

    /// A schema goes when nothing is left in it.
    async fn clean(place: &Place) -> anyhow::Result<()> {
        let name = place.own_name();
        let drop_all = |kind: &str, list: &str| {
            format!(
                "DECLARE @all nvarchar(max) = (SELECT STRING_AGG(N'DROP {kind} {name}.' + name, '; ') FROM {list}
                 WHERE schema_id = SCHEMA_ID(N'{name}')); EXEC (@all)\nGO\n"
            )
        };
        let all = [
            drop_all("PROCEDURE", "sys.procedures"),
            drop_all("TYPE", "sys.table_types"),
            drop_all("VIEW", "sys.views"),
            drop_all("TABLE", "sys.tables"),
        ]
        .concat();
        mssql::chore(format!("{all}DROP SCHEMA IF EXISTS {name}")).await
    }
}

/// A fresh store as a case sees it, whatever the backend.
#[derive(Debug)]
pub struct Harness {
    /// The backend's name.
    pub backend: &'static str,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its outbox.
    pub outbox: Outbox,
    /// Its inbox.
    pub inbox: Inbox,
    /// Its clock.
    pub clock: ManualClock,
    /// Its folder.
    pub place: Place,
    /// Log lines and metrics of this case.
    pub setup: Setup,
}

/// A harness that also knows the backend's type, for cases with workers.
#[derive(Debug)]
pub struct Stage<B: Testable> {
    /// The store, by its own type.
    pub store: B::Store,
    harness: Harness,
}

impl<B: Testable> Deref for Stage<B> {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

static STORES: AtomicU64 = AtomicU64::new(1);

impl<B: Testable> Stage<B> {
    /// A fresh store.
    pub async fn open(setup: Setup) -> anyhow::Result<Self> {
        let name = format!("store-{}", STORES.fetch_add(1, Ordering::Relaxed));
        Self::open_at(Place::new(name, ManualClock::new(START), setup.pooled)?, setup).await
    }

    /// A fresh store on the same clock, named after this one and `suffix`.
    pub async fn another(&self, suffix: &str) -> anyhow::Result<Self> {
        self.called(format!("{}-{suffix}", self.place.name)).await
    }

    /// A fresh store on the same clock, of that name. No other case may use it.
    pub async fn called(&self, name: impl Into<String>) -> anyhow::Result<Self> {
        Self::open_at(Place::new(name.into(), self.clock.clone(), self.place.pooled)?, self.setup.clone()).await
    }

    async fn open_at(place: Place, setup: Setup) -> anyhow::Result<Self> {
        let clock = place.clock.clone();
        let store = B::open(&place).await.context("the store cannot be opened")?;
        capture::route(&place.name, &setup.logs);
        meters::route(&place.name, &setup.meters);
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let (outbox, inbox) = (Outbox::of(shared.clone()), Inbox::of(shared.clone()));
        let harness = Harness { backend: B::NAME, store: shared, outbox, inbox, clock, place, setup };
        Ok(Self { store, harness })
    }

    /// Ends a case. Whatever it did, every message must stand in one place.
    pub async fn end(self, verdict: Verdict) -> Verdict {
        let misplaced = B::misplaced(&self.harness.place).await;
        self.close().await;
        verdict?;
        let misplaced = misplaced?;
        anyhow::ensure!(misplaced.is_empty(), "messages stand in no place or in two: {misplaced:?}");
        Ok(())
    }

    /// Leaves nothing behind, as far as it can.
    pub async fn close(self) {
        if let Err(error) = B::clean(&self.harness.place).await {
            eprintln!("{} was not cleaned up: {error:#}", self.harness.place.name);
        }
    }
}

impl Harness {
    /// Both queues.
    pub fn sides(&self) -> [Side<'_>; 2] {
        [self.side(Queue::Outbox), self.side(Queue::Inbox)]
    }

    /// One queue.
    pub fn side(&self, queue: Queue) -> Side<'_> {
        Side::new(self, queue)
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock, and tells workers to look again.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
        self.store.wake(Queue::Outbox).ring();
        self.store.wake(Queue::Inbox).ring();
    }
}

impl Harness {
    /// Moves the clock to when the next row of a queue is due, unless there is work to do or being done: no lease runs
    /// out by it.
    pub async fn skip_pause(&self, queue: Queue) -> anyhow::Result<()> {
        let rows = self.side(queue).verbs().list(Filter::all()).await?;
        let waiting = |record: &&Record| matches!(record.state(), State::Ready | State::Leased);
        let next = rows.iter().filter(waiting).map(|record| (record.state(), record.visible_at())).collect::<Vec<_>>();
        let is_idle = next.iter().all(|(state, at)| *state == State::Ready && *at > Some(self.now()));
        if let Some(at) = next.iter().filter_map(|(_, at)| *at).min().filter(|_| is_idle) {
            self.advance(at.since(self.now()));
        }
        Ok(())
    }
}
