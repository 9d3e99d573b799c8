//! The options that all servers have in common.

use std::fmt;
use std::time::Duration;

use crate::db::server::{Engine, ServerStore};
use crate::sql::TableNames;
use crate::sql::dialect::Fence;
use crate::support::clock::Clock;
use crate::support::error::{Error, Result};

const CONNECTIONS: usize = 16;
const IDLE: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);
const HEAR_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How many connections the store's own statements have. Their transactions are short: more connections would only wait
/// for each other. With only one, a lease could not be renewed while another statement waits for an answer.
const VERB_CONNECTIONS: std::ops::RangeInclusive<usize> = 2..=6;

/// How a store on a server is opened, whatever the server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) tables: TableNames,
    pub(crate) deploy_schema: bool,
    pub(crate) clock: Clock,
    pub(crate) dead_letter_topic: Option<String>,
    pub(crate) connections: usize,
    pub(crate) idle: Duration,
    /// Whether a statement may run outside a transaction: not behind a pooler, which may prepare it on one connection
    /// and run it on another.
    pub(crate) statements_alone: bool,
    pub(crate) patience: Duration,
    /// How long this machine's clock stands in for the server's clock before the server is asked again.
    pub(crate) hear_again_after: Duration,
    /// Whether workers in other processes are notified of new rows, and whether this store listens for notifications.
    pub(crate) notify: bool,
    /// The fence of the dialect, except in a test that shows what happens without one.
    pub(crate) fence: Option<Fence>,
    pub(crate) ack_outside: bool,
}

impl Settings {
    pub(crate) fn new(name: String, tables: TableNames) -> Self {
        Self {
            name,
            tables,
            deploy_schema: false,
            clock: Clock::Database,
            dead_letter_topic: None,
            connections: CONNECTIONS,
            idle: IDLE,
            statements_alone: true,
            patience: PATIENCE,
            hear_again_after: HEAR_AGAIN_AFTER,
            notify: true,
            fence: None,
            ack_outside: false,
        }
    }

    /// How many connections the store's own statements have.
    pub(crate) fn verb_connections(&self) -> usize {
        self.connections.clamp(*VERB_CONNECTIONS.start(), *VERB_CONNECTIONS.end())
    }

    pub(crate) fn checked(self) -> Result<Self> {
        if self.connections < 2 {
            return Err(Error::invalid(
                "a store needs at least 2 connections: one for handlers, one for its own statements",
            ));
        }
        if self.idle.is_zero() {
            return Err(Error::invalid("the idle time of connections must be longer than zero"));
        }
        if self.patience.is_zero() {
            return Err(Error::invalid("the time limit for an answer must be longer than zero"));
        }
        Ok(self)
    }
}

/// Checks the scheme, because the driver accepts a URL of any scheme. The error does not contain the URL, which may
/// hold a password.
pub(crate) fn check_scheme(url: &str, allowed: [&str; 2]) -> Result<()> {
    if allowed.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://"))) {
        return Ok(());
    }
    let [usual, also] = allowed;
    Err(Error::invalid(format!("the URL of the database must begin with {usual}:// or {also}://")))
}

/// How to open a store on a database server: `PostgresOptions`, `MySqlOptions` and `MssqlOptions` are this type.
///
/// ```
/// # #[cfg(feature = "sqlx-0_9-postgres")]
/// # {
/// use postroom::postgres::{Postgres, PostgresOptions};
/// use postroom::store::ServerOptions;
///
/// let small = |options: ServerOptions<Postgres>| -> PostgresOptions { options.name("shop").connections(4) };
/// # }
/// ```
#[allow(private_bounds, reason = "the engines are this crate's own")]
pub struct ServerOptions<E: Engine> {
    pub(crate) target: E::Target,
    pub(crate) settings: Settings,
}

impl<E: Engine> Clone for ServerOptions<E> {
    fn clone(&self) -> Self {
        Self { target: self.target.clone(), settings: self.settings.clone() }
    }
}

impl<E: Engine> fmt::Debug for ServerOptions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("target", &self.target).field("settings", &self.settings).finish()
    }
}

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerOptions<E> {
    /// Connects, and deploys the schema if the options say so.
    pub async fn open(self) -> Result<ServerStore<E>> {
        Box::pin(ServerStore::open(self.target, self.settings.checked()?)).await
    }

    crate::setters! {
        /// The name of this store in logs. The default is the name of the database.
        pub fn name(mut self, name: impl Into<String>) { self.settings.name = name.into(); }

        /// The names of the tables. The defaults are `infra.outbox` and `infra.inbox` on PostgreSQL, `infra_outbox` and
        /// `infra_inbox` on MySQL and MariaDB, `infra.Outbox` and `infra.Inbox` on SQL Server.
        pub fn tables(mut self, tables: TableNames) { self.settings.tables = tables; }

        /// Whether to create the tables and indexes if they are missing, and to carry older ones to the newest version.
        /// The default is no.
        pub fn deploy_schema(mut self, deploy: bool) { self.settings.deploy_schema = deploy; }

        /// The most connections for handlers. The default is 16. A handler that writes has one while it runs. The
        /// store's own statements have as many more, but at least two and at most six; on PostgreSQL one more
        /// connection listens.
        pub fn connections(mut self, connections: usize) { self.settings.connections = connections; }

        /// How long an unused connection is kept. The default is 10 minutes.
        pub fn idle(mut self, idle: Duration) { self.settings.idle = idle; }

        /// How long a statement may take before its connection is closed. The default is one minute. A server that died
        /// silently, or one behind a broken network, never answers.
        pub fn answer_within(mut self, patience: Duration) { self.settings.patience = patience; }

        /// Enqueues an event under this topic, in the same transaction, whenever a message becomes a dead letter.
        pub fn dead_letters(mut self, topic: impl Into<String>) {
            self.settings.dead_letter_topic = Some(topic.into());
        }

        /// Uses another clock than the server's, for tests.
        pub fn clock(mut self, clock: Clock) { self.settings.clock = clock; }

        /// Runs every operation between BEGIN and COMMIT, even if one statement could do it, for a test that watches
        /// commits.
        #[cfg(feature = "testing")]
        pub fn in_transactions(mut self) { self.settings.statements_alone = false; }

        /// How long this machine's clock stands in for the server's clock, for a test that cannot wait for a minute.
        #[cfg(feature = "testing")]
        pub fn hear_again_after(mut self, span: Duration) { self.settings.hear_again_after = span; }

        /// Removes a guard, for a test that shows what happens without it.
        #[cfg(feature = "testing")]
        pub fn sabotage(mut self, sabotage: Option<crate::store::sabotage::Sabotage>) {
            use crate::store::sabotage::Sabotage;
            self.settings.fence = (sabotage == Some(Sabotage::Fencing)).then_some(E::NO_FENCE);
            self.settings.ack_outside = sabotage == Some(Sabotage::AckOutside);
        }
    }
}
