//! MySQL and MariaDB.

mod options;

pub use options::MySqlOptions;

use std::convert::Infallible;
use std::time::Duration;

use crate::driver::sqlx_09::Unprinted;
use crate::driver::sqlx_mysql_09::MySqlLink;
use crate::error::Result;
use crate::handler::{Backend, State};
use crate::message::NewMessage;
use crate::queue::{Claimed, Lease, Queue};
use crate::server::{Engine, HandlerTx, Purpose, ServerStore, Silence};
use crate::sql::dialect::Dialect;
use crate::sql::mysql::MYSQL;
use crate::store::Stored;
use crate::worker::Run;

/// MySQL and MariaDB, as handlers see it.
#[derive(Debug)]
pub enum MySql {}

/// A store in a MySQL or MariaDB database, beside the user's own tables. Cheap to clone.
pub type MySqlStore = ServerStore<MySql>;

/// The transaction of a handler on MySQL and MariaDB.
#[derive(Debug)]
pub struct MySqlTx(HandlerTx<MySql>);

impl Engine for MySql {
    type Target = Unprinted<sqlx::mysql::MySqlConnectOptions>;
    type Link = MySqlLink;
    type Signal = Silence;

    const DIALECT: &'static Dialect = &MYSQL;

    async fn connect(target: &Self::Target, _: Purpose) -> Result<MySqlLink> {
        MySqlLink::connect(target).await
    }
}

impl Backend for MySql {
    type Store = MySqlStore;
    type Tx = MySqlTx;
    type Conn<'t> = &'t mut sqlx::MySqlConnection;
    type Blocking = Infallible;

    async fn begin(store: &MySqlStore, _: Duration) -> Result<MySqlTx> {
        HandlerTx::begin(store).await.map(MySqlTx)
    }

    fn conn(tx: &mut MySqlTx) -> &mut sqlx::MySqlConnection {
        tx.0.link.connection()
    }

    async fn enqueue(tx: &mut MySqlTx, message: NewMessage) -> Result<Stored> {
        tx.0.enqueue(message).await
    }

    async fn commit(_: &MySqlStore, tx: MySqlTx, queue: Queue, lease: &Lease, response: Option<String>) -> Result<()> {
        tx.0.commit(queue, lease, response).await
    }

    fn overran(_: &MySqlTx) -> bool {
        false
    }

    async fn roll_back(tx: MySqlTx) -> bool {
        tx.0.roll_back().await
    }

    async fn scope<F: Future + Send>(_: &MySqlStore, handler: F) -> F::Output {
        handler.await
    }

    async fn run_blocking(_: &MySqlStore, _: Queue, work: Vec<(Claimed, Infallible)>, _: &State, _: &Run) {
        if let Some((_, never)) = work.into_iter().next() {
            match never {}
        }
    }
}
