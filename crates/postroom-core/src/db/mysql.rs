//! MySQL and MariaDB.

pub(crate) mod dialect;
mod doctor;
pub(crate) mod driver_sqlx_09;
pub(crate) mod error;
mod options;

pub use options::MySqlOptions;

use crate::db::mysql::dialect::MYSQL;
use crate::db::mysql::driver_sqlx_09::MySqlServerConnection;
use crate::db::server::{Engine, Lends, Purpose, ServerStore, Silence};
use crate::db::sqlx_09::Reach;
use crate::sql::dialect::Dialect;
#[cfg(feature = "testing")]
use crate::sql::dialect::Fence;
use crate::support::error::Result;

/// MySQL and MariaDB, as handlers see it.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Payload};
/// use postroom::mysql::MySql;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: i64 }
/// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
///
/// async fn reserve(ctx: &mut Ctx<MySql>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let insert = sqlx::query("INSERT INTO reserved (order_id) VALUES (?)").bind(placed.order);
///     insert.execute(ctx.tx().await?).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::<MySql>::new().on(reserve);
/// ```
#[derive(Debug)]
pub enum MySql {}

/// A store in a MySQL or MariaDB database, beside the user's own tables. Cheap to clone.
///
/// ```no_run
/// # async fn f() -> postroom::Result<()> {
/// use postroom::Outbox;
/// use postroom::mysql::{MySqlOptions, MySqlStore};
///
/// let store: MySqlStore = MySqlOptions::new("mysql://app@db.example/shop")?.open().await?;
/// let outbox = Outbox::new(store);
/// # Ok(()) }
/// ```
pub type MySqlStore = ServerStore<MySql>;

impl Lends for MySql {
    type Lent = sqlx::MySqlConnection;
}

impl Engine for MySql {
    type Target = Reach<sqlx::MySql>;
    type ServerConnection = MySqlServerConnection;
    type Signal = Silence;

    const DIALECT: &'static Dialect = &MYSQL;
    #[cfg(feature = "testing")]
    const NO_FENCE: Fence = dialect::NO_FENCE;
    const LISTENERS: usize = 0;

    async fn connect(target: &Self::Target, purpose: Purpose) -> Result<MySqlServerConnection> {
        MySqlServerConnection::connect(target, purpose).await
    }

    fn lend(link: &mut MySqlServerConnection) -> &mut sqlx::MySqlConnection {
        link.connection()
    }
}
