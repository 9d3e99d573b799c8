//! PostgreSQL.

mod options;
mod signal;

pub use options::PostgresOptions;

use std::convert::Infallible;
use std::time::Duration;

use crate::driver::sqlx_postgres_09::{PgLink, PgTarget};
use crate::error::Result;
use crate::handler::{Backend, State};
use crate::message::NewMessage;
use crate::queue::{Claimed, Lease, Queue};
use crate::server::{Engine, HandlerTx, Purpose, ServerStore};
use crate::sql::dialect::Dialect;
use crate::sql::postgres::POSTGRES;
use crate::store::Stored;
use crate::worker::Run;

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

impl Backend for Postgres {
    type Store = PostgresStore;
    type Tx = PostgresTx;
    type Conn<'t> = &'t mut sqlx::PgConnection;
    type Blocking = Infallible;

    async fn begin(store: &PostgresStore, _: Duration) -> Result<PostgresTx> {
        HandlerTx::begin(store).await.map(PostgresTx)
    }

    fn conn(tx: &mut PostgresTx) -> &mut sqlx::PgConnection {
        tx.0.link.connection()
    }

    async fn enqueue(tx: &mut PostgresTx, message: NewMessage) -> Result<Stored> {
        tx.0.enqueue(message).await
    }

    async fn commit(
        _: &PostgresStore,
        tx: PostgresTx,
        queue: Queue,
        lease: &Lease,
        response: Option<String>,
    ) -> Result<()> {
        tx.0.commit(queue, lease, response).await
    }

    fn overran(_: &PostgresTx) -> bool {
        false
    }

    async fn roll_back(tx: PostgresTx) -> bool {
        tx.0.roll_back().await
    }

    async fn scope<F: Future + Send>(_: &PostgresStore, handler: F) -> F::Output {
        handler.await
    }

    async fn run_blocking(_: &PostgresStore, _: Queue, work: Vec<(Claimed, Infallible)>, _: &State, _: &Run) {
        if let Some((_, never)) = work.into_iter().next() {
            match never {}
        }
    }
}
