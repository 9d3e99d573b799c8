//! PostgreSQL.

mod options;
mod signal;

pub use options::PostgresOptions;

use crate::driver::sqlx_postgres_09::{PgLink, PgTarget};
use crate::error::Result;
use crate::server::{Engine, HandlerTx, Purpose, ServerStore, handlers_on_server};
use crate::sql::dialect::Dialect;
use crate::sql::postgres::POSTGRES;

/// PostgreSQL, as handlers see it.
#[derive(Debug)]
pub enum Postgres {}

/// A store in a PostgreSQL database, beside the user's own tables. Cheap to clone.
pub type PostgresStore = ServerStore<Postgres>;

/// The transaction of a handler on PostgreSQL.
#[derive(Debug)]
pub struct PostgresTx(HandlerTx<Postgres>);

impl Engine for Postgres {
    type Target = PgTarget;
    type Link = PgLink;
    type Signal = signal::Notify;

    const DIALECT: &'static Dialect = &POSTGRES;

    async fn connect(target: &PgTarget, purpose: Purpose) -> Result<PgLink> {
        PgLink::connect(target, purpose).await
    }
}

handlers_on_server!(Postgres, PostgresStore, PostgresTx, sqlx::PgConnection);
