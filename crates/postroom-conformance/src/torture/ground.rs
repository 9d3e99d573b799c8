//! The databases a run can take place on, and all that differs between them.

mod mariadb;
mod mssql;
mod postgres;
mod server;
mod sqlite;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use postroom::handler::Backend;
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage};
use postroom_testbed::Engine;

use super::gate::Gate;
use super::place::Place;
use super::worker::{Effect, Stops};

/// A kind of database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Database {
    /// Two files.
    Sqlite,
    /// Two databases of a PostgreSQL.
    Postgres,
    /// Two databases of a MariaDB.
    Mariadb,
    /// Two databases of the SQL Server that the environment names.
    Mssql,
}

impl Database {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mssql => "mssql",
        }
    }

    /// How long a worker holds messages: short, so that a pause outlasts it soon. A Babelfish may need a second for a
    /// message when it has much to do.
    pub(crate) fn lease(self) -> Duration {
        Duration::from_millis(if self == Self::Mssql { 4000 } else { 400 })
    }

    /// The server that is started for it, if one is.
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::Sqlite | Self::Mssql => None,
            Self::Postgres => Some(Engine::Postgres),
            Self::Mariadb => Some(Engine::MariaDb),
        }
    }
}

/// Calls a function that is generic over the database.
macro_rules! on_ground {
    ($database:expr, $function:ident($($argument:expr),*)) => {
        match $database {
            $crate::torture::Database::Sqlite => $function::<postroom::sqlite::Sqlite>($($argument),*),
            $crate::torture::Database::Postgres => $function::<postroom::postgres::Postgres>($($argument),*),
            $crate::torture::Database::Mariadb => $function::<postroom::mysql::MySql>($($argument),*),
            $crate::torture::Database::Mssql => $function::<postroom::mssql::Mssql>($($argument),*),
        }
    };
}
pub(crate) use on_ground;

/// The two databases of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    Orders,
    Ledger,
}

impl Base {
    pub(crate) const BOTH: [Self; 2] = [Self::Orders, Self::Ledger];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Orders => "postroom_torture_orders",
            Self::Ledger => "postroom_torture_ledger",
        }
    }

    /// The queue that is used there.
    pub(crate) fn queue(self) -> &'static str {
        match self {
            Self::Orders => "outbox_messages",
            Self::Ledger => "inbox_messages",
        }
    }
}

/// An order and the message about it.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) message: NewMessage,
    /// Puts the order down.
    pub(crate) insert: String,
}

/// What became of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    New,
    /// It was there before.
    Known,
    /// The commit had no answer: it is there or not.
    Unknown,
}

/// A row of an answer, as text.
pub(crate) type Line = Vec<String>;

/// A database, as the crash test uses it beside the library.
pub(crate) trait Ground: Backend {
    /// A connection of the crash test's own.
    type Own: Send + 'static;
    /// Where orders are placed, one at a time.
    type Desk: Send;
    /// How many orders are placed at once.
    const DESKS: usize;
    /// Whether only one connection can write at a time.
    const ONE_WRITER: bool;
    /// Keeps handlers from writing, on a separate connection, and lets them write again.
    const LOCK: &'static str;
    const UNLOCK: &'static str;

    /// Makes both databases, with nothing in them.
    fn create(place: &Place) -> impl Future<Output = Result<()>> + Send;

    fn open(place: &Place, base: Base, deploy: bool) -> impl Future<Output = Result<Self::Store>> + Send;

    fn connect(place: &Place, base: Base) -> impl Future<Output = Result<Self::Own>> + Send;

    /// Runs statements without an answer.
    fn say(conn: &mut Self::Own, sql: &str) -> impl Future<Output = Result<()>> + Send;

    fn ask(conn: &mut Self::Own, sql: &str) -> impl Future<Output = Result<Vec<Line>>> + Send;

    fn desk(place: &Place, store: &Self::Store) -> Self::Desk;

    /// The order and the message about it, in one transaction.
    fn place_order(
        desk: &mut Self::Desk,
        order: &Order,
        gate: &Arc<Gate>,
    ) -> impl Future<Output = Result<Placed>> + Send;

    fn handlers(stops: &Stops<Self>) -> Handlers<Self>;

    /// Writes in a handler's transaction.
    fn apply(ctx: &mut Ctx<Self>, effect: Effect) -> impl Future<Output = HandlerResult<()>> + Send;

    /// A trigger that records a settle without a lease on the row.
    fn fence(table: &str) -> String;

    /// What follows the name of a table where its messages are read with their state.
    const STATES: &'static str = "";

    /// An id's column, as 32 digits.
    fn digits_of(column: &str) -> String;

    /// An id, as its column holds it.
    fn id(id: uuid::Uuid) -> String {
        format!("X'{}'", id.simple())
    }
}

/// The handler of every topic on a server, and of the slow one on SQLite.
pub(crate) async fn audit<G: Ground>(ctx: &mut Ctx<G>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.state::<Stops<G>>()?.enter(&message.id());
    G::apply(ctx, Effect::of(&message)).await?;
    ctx.state::<Stops<G>>()?.pass(&message.id());
    Ok(None)
}
