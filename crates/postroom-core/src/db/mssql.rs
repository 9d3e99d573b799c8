//! SQL Server.

mod connection_string;
pub(crate) mod dialect;
mod doctor;
pub(crate) mod driver_tiberius_013;
pub(crate) mod error;
mod options;

pub use options::MssqlOptions;

/// A connection to SQL Server. Handlers borrow one, and [`MssqlOptions::connect`] makes one.
///
/// ```
/// use postroom::{NewMessage, Outbox, Result};
/// use postroom::mssql::MssqlConnection;
/// use postroom::queue::Enqueued;
///
/// /// In the transaction that the caller began on it.
/// async fn placed(conn: &mut MssqlConnection, outbox: &Outbox) -> Result<Enqueued> {
///     outbox.enqueue_in(conn, &NewMessage::new("order.placed", "{}")).await
/// }
/// ```
pub type MssqlConnection = tiberius::Client<tokio_util::compat::Compat<tokio::net::TcpStream>>;

use crate::db::mssql::dialect::MSSQL;
use crate::db::mssql::driver_tiberius_013::{MssqlServerConnection, MssqlTarget};
use crate::db::server::{Engine, Lends, Purpose, ServerStore, Silence};
use crate::sql::dialect::Dialect;
#[cfg(feature = "testing")]
use crate::sql::dialect::Fence;
use crate::support::error::Result;

/// SQL Server, as handlers see it.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Payload};
/// use postroom::mssql::Mssql;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: i64 }
/// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
///
/// async fn reserve(ctx: &mut Ctx<Mssql>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     ctx.tx().await?.execute("INSERT INTO reserved (order_id) VALUES (@P1)", &[&placed.order]).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::<Mssql>::new().on(reserve);
/// ```
#[derive(Debug)]
pub enum Mssql {}

/// A store in a SQL Server database, beside the user's own tables. Cheap to clone.
///
/// ```no_run
/// # async fn f() -> postroom::Result<()> {
/// use postroom::Outbox;
/// use postroom::mssql::{MssqlOptions, MssqlStore};
///
/// let store: MssqlStore = MssqlOptions::new("mssql://app:secret@db.example/shop")?.open().await?;
/// let outbox = Outbox::new(store);
/// # Ok(()) }
/// ```
pub type MssqlStore = ServerStore<Mssql>;

impl Lends for Mssql {
    type Lent = MssqlConnection;
}

impl Engine for Mssql {
    type Target = MssqlTarget;
    type ServerConnection = MssqlServerConnection;
    type Signal = Silence;

    const DIALECT: &'static Dialect = &MSSQL;
    #[cfg(feature = "testing")]
    const NO_FENCE: Fence = dialect::NO_FENCE;
    const LISTENERS: usize = 0;

    async fn connect(target: &MssqlTarget, _: Purpose) -> Result<MssqlServerConnection> {
        MssqlServerConnection::connect(target).await
    }

    fn lend(link: &mut MssqlServerConnection) -> &mut MssqlConnection {
        link.connection()
    }
}
