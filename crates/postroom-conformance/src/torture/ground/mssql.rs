//! SQL Server: two databases of the server that the environment names.

use anyhow::{Context, Result};
use postroom::mssql::{Mssql, MssqlOptions, MssqlStore};
use postroom::sql::TableNames;
use postroom::{Ctx, HandlerResult, Handlers, Outbox};

use super::server::{Desk, failed, server, url};
use super::{Base, Ground, Line, Order, Placed, audit};
use crate::mssql::MssqlConnection;
use crate::servers::Client;
use crate::torture::gate::Gate;
use crate::torture::place::Place;
use crate::torture::wire::Stop;
use crate::torture::worker::{Effect, Stops};

impl Ground for Mssql {
    type Own = MssqlConnection;
    type Desk = Desk<MssqlConnection>;
    const DESKS: usize = 4;
    const ONE_WRITER: bool = false;
    const LOCK: &'static str = "BEGIN TRANSACTION; SELECT TOP (0) * FROM effects WITH (TABLOCKX, HOLDLOCK)";
    const UNLOCK: &'static str = "ROLLBACK";

    async fn create(place: &Place) -> Result<()> {
        let mut conn = MssqlConnection::reach(server(place)?).await?;
        for base in Base::BOTH {
            // The server is not ours: an earlier run may have left its own.
            let name = base.name();
            conn.say(&format!("DROP DATABASE IF EXISTS {name}\nGO\nCREATE DATABASE {name}")).await?;
        }
        Ok(())
    }

    async fn open(place: &Place, base: Base, deploy: bool) -> Result<MssqlStore> {
        let options = MssqlOptions::new(&url(place, base)?)?.tables(TableNames::default());
        let store = options.deploy_schema(deploy).sabotage(place.sabotage).open().await;
        store.with_context(|| format!("cannot open {}", base.name()))
    }

    async fn connect(place: &Place, base: Base) -> Result<MssqlConnection> {
        Ok(MssqlConnection::reach(&url(place, base)?).await?)
    }

    async fn say(conn: &mut MssqlConnection, sql: &str) -> Result<()> {
        Ok(Client::say(conn, sql).await?)
    }

    async fn ask(conn: &mut MssqlConnection, sql: &str) -> Result<Vec<Line>> {
        Ok(Client::ask(conn, sql).await?)
    }

    fn desk(place: &Place, store: &MssqlStore) -> Self::Desk {
        Desk { url: url(place, Base::Orders).unwrap_or_default(), outbox: Outbox::new(store.clone()), conn: None }
    }

    async fn place_order(desk: &mut Self::Desk, order: &Order, gate: &std::sync::Arc<Gate>) -> Result<Placed> {
        let mut conn = match desk.conn.take() {
            Some(conn) => conn,
            None => MssqlConnection::reach(&desk.url).await.with_context(|| failed(order))?,
        };
        conn.begin_transaction().await.with_context(|| failed(order))?;
        let enqueued = desk.outbox.enqueue_in(&mut conn, &order.message).await.with_context(|| failed(order))?;
        if !enqueued.is_duplicate() {
            Client::say(&mut conn, &order.insert).await.with_context(|| failed(order))?;
        }
        gate.pass(Stop::Placing, "");
        // As a separate statement, because only those are cut.
        if Client::say(&mut conn, "COMMIT").await.is_err() {
            return Ok(Placed::Unknown);
        }
        desk.conn = Some(conn);
        Ok(if enqueued.is_duplicate() { Placed::Known } else { Placed::New })
    }

    fn handlers(stops: &Stops<Self>) -> Handlers<Self> {
        Handlers::new().fallback(audit).state(stops.clone())
    }

    async fn apply(ctx: &mut Ctx<Self>, effect: Effect) -> HandlerResult<()> {
        Client::say(ctx.tx().await?, &effect.0).await?;
        Ok(())
    }

    /// None: a table with a trigger refuses statements that answer with what they changed, as renewals do. A settle by
    /// somebody else still shows by its second effect.
    fn fence(_: &str) -> String {
        "SELECT 1".to_owned()
    }

    const STATES: &'static str = "_state";

    fn digits_of(column: &str) -> String {
        format!("LOWER(REPLACE(CONVERT(char(36), {column}), '-', ''))")
    }

    fn id(id: uuid::Uuid) -> String {
        format!("'{id}'")
    }
}
