//! PostgreSQL.

pub(crate) mod dialect;
mod doctor;
#[cfg(feature = "deadpool-postgres-0_14")]
mod driver_deadpool_postgres_014;
#[cfg(feature = "sqlx-0_8-postgres")]
mod driver_sqlx_08;
pub(crate) mod driver_sqlx_09;
#[cfg(feature = "tokio-postgres-0_7")]
mod driver_tokio_postgres_07;
pub(crate) mod error;
mod options;
mod signal;

pub use options::PostgresOptions;

use crate::db::postgres::dialect::POSTGRES;
use crate::db::postgres::driver_sqlx_09::{PgServerConnection, PgTarget};
use crate::db::server::{Engine, Lends, Purpose, ServerStore};
use crate::sql::dialect::Dialect;
#[cfg(feature = "testing")]
use crate::sql::dialect::Fence;
use crate::support::error::Result;

/// PostgreSQL, as handlers see it.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Payload};
/// use postroom::postgres::Postgres;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: i64 }
/// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; type Reply = (); }
///
/// async fn reserve(ctx: &mut Ctx<Postgres>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let insert = sqlx::query("INSERT INTO reserved (order_id) VALUES ($1)").bind(placed.order);
///     insert.execute(ctx.tx().await?).await?;
///     Ok(())
/// }
///
/// let handlers = Handlers::<Postgres>::new().on(reserve);
/// ```
#[derive(Debug)]
pub enum Postgres {}

/// A store in a PostgreSQL database, beside the user's own tables. Cheap to clone.
///
/// ```no_run
/// # async fn f() -> postroom::Result<()> {
/// use postroom::Outbox;
/// use postroom::postgres::{PostgresOptions, PostgresStore};
///
/// let store: PostgresStore = PostgresOptions::new("postgres://app@db.example/shop")?.open().await?;
/// let outbox = Outbox::new(store);
/// # Ok(()) }
/// ```
pub type PostgresStore = ServerStore<Postgres>;

impl Lends for Postgres {
    type Lent = sqlx::PgConnection;
}

impl Engine for Postgres {
    type Target = PgTarget;
    type ServerConnection = PgServerConnection;
    type Signal = signal::Notify;

    const DIALECT: &'static Dialect = &POSTGRES;
    #[cfg(feature = "testing")]
    const NO_FENCE: Fence = dialect::NO_FENCE;
    const LISTENERS: usize = 1;

    async fn connect(target: &PgTarget, purpose: Purpose) -> Result<PgServerConnection> {
        PgServerConnection::connect(target, purpose).await
    }

    fn lend(link: &mut PgServerConnection) -> &mut sqlx::PgConnection {
        link.connection()
    }
}
