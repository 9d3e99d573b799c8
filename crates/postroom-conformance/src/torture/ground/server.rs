//! What is the same on every server that sqlx reaches: connections are concrete types, so it is written once for each.

use anyhow::{Context, Result};
use postroom::Outbox;

use super::{Base, Order};
use crate::servers::with_database;
use crate::torture::place::Place;

/// Where orders are placed: a connection that is replaced when it breaks.
pub(crate) struct Desk<C> {
    pub(super) url: String,
    pub(super) outbox: Outbox,
    pub(super) conn: Option<C>,
}

pub(super) fn url(place: &Place, base: Base) -> Result<String> {
    Ok(with_database(server(place)?, base.name()))
}

pub(super) fn server(place: &Place) -> Result<&str> {
    place.server.as_deref().context("no server was named")
}

pub(super) fn failed(order: &Order) -> String {
    format!("order {} was not placed", order.number)
}

/// The part of a [`Ground`](super::Ground) that only names the connection.
macro_rules! ground_on_server {
    ($conn:ty, $options:ty) => {
        type Own = $conn;
        type Desk = $crate::torture::ground::server::Desk<$conn>;
        const DESKS: usize = 8;
        const ONE_WRITER: bool = false;

        async fn create(place: &Place) -> Result<()> {
            let mut conn = <$conn>::connect(server(place)?).await?;
            for base in Base::BOTH {
                conn.execute(AssertSqlSafe(format!("CREATE DATABASE {}", base.name()))).await?;
            }
            Ok(())
        }

        async fn open(place: &Place, base: Base, deploy: bool) -> Result<Self::Store> {
            let options = <$options>::new(&url(place, base)?)?.tables(TableNames::default());
            let store = options.deploy_schema(deploy).sabotage(place.sabotage).open().await;
            store.with_context(|| format!("cannot open {}", base.name()))
        }

        async fn connect(place: &Place, base: Base) -> Result<$conn> {
            Ok(<$conn>::reach(&url(place, base)?).await?)
        }

        async fn say(conn: &mut $conn, sql: &str) -> Result<()> {
            Ok(Client::say(conn, sql).await?)
        }

        async fn ask(conn: &mut $conn, sql: &str) -> Result<Vec<Line>> {
            Ok(Client::ask(conn, sql).await?)
        }

        fn desk(place: &Place, store: &Self::Store) -> Self::Desk {
            Desk { url: url(place, Base::Orders).unwrap_or_default(), outbox: Outbox::new(store.clone()), conn: None }
        }

        async fn place_order(
            desk: &mut Self::Desk,
            order: &Order,
            gate: &std::sync::Arc<$crate::torture::gate::Gate>,
        ) -> Result<Placed> {
            let mut conn = match desk.conn.take() {
                Some(conn) => conn,
                None => <$conn>::connect(&desk.url).await.with_context(|| failed(order))?,
            };
            let mut tx = conn.begin().await.with_context(|| failed(order))?;
            let enqueued = desk.outbox.enqueue_in(&mut tx, &order.message).await.with_context(|| failed(order))?;
            if !enqueued.is_duplicate() {
                tx.execute(AssertSqlSafe(order.insert.clone())).await.with_context(|| failed(order))?;
            }
            gate.pass($crate::torture::wire::Stop::Placing, "");
            if tx.commit().await.is_err() {
                return Ok(Placed::Unknown);
            }
            desk.conn = Some(conn);
            Ok(if enqueued.is_duplicate() { Placed::Known } else { Placed::New })
        }

        fn handlers(stops: &Stops<Self>) -> Handlers<Self> {
            Handlers::new().fallback(audit).state(stops.clone())
        }

        async fn apply(ctx: &mut Ctx<Self>, effect: Effect) -> HandlerResult<()> {
            ctx.tx().await?.execute(AssertSqlSafe(effect.0)).await?;
            Ok(())
        }
    };
}
pub(super) use ground_on_server;
