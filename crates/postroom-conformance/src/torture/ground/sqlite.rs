//! SQLite: two files, and handlers of both kinds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use postroom::sqlite::{BlockingCtx, Sqlite, SqliteOptions, SqliteStore};
use postroom::{Ctx, HandlerResult, Handlers};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::{Base, Ground, Line, Order, Placed, audit};
use crate::torture::gate::Gate;
use crate::torture::pace;
use crate::torture::place::{Place, TOPIC_ASYNC, TOPIC_BLOCKING};
use crate::torture::wire::Stop;
use crate::torture::worker::{Effect, Stops};

impl Ground for Sqlite {
    type Own = Connection;
    type Desk = SqliteStore;
    // They share the fsyncs of the database.
    const DESKS: usize = 32;
    const ONE_WRITER: bool = true;
    const LOCK: &'static str = "BEGIN IMMEDIATE";
    const UNLOCK: &'static str = "ROLLBACK";

    async fn create(_: &Place) -> Result<()> {
        Ok(())
    }

    async fn open(place: &Place, base: Base, deploy: bool) -> Result<SqliteStore> {
        let path = place.path(base);
        let options = SqliteOptions::new(&path).deploy_schema(deploy).sabotage(place.sabotage);
        options.open().await.with_context(|| format!("cannot open {}", path.display()))
    }

    async fn connect(place: &Place, base: Base) -> Result<Connection> {
        connect(&place.path(base))
    }

    async fn say(conn: &mut Connection, sql: &str) -> Result<()> {
        Ok(conn.execute_batch(sql)?)
    }

    async fn ask(conn: &mut Connection, sql: &str) -> Result<Vec<Line>> {
        let mut statement = conn.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            let line: Result<Line> = (0..columns).map(|column| text(row.get_ref(column)?)).collect();
            lines.push(line?);
        }
        Ok(lines)
    }

    fn desk(_: &Place, store: &SqliteStore) -> SqliteStore {
        store.clone()
    }

    async fn place_order(store: &mut SqliteStore, order: &Order, gate: &Arc<Gate>) -> Result<Placed> {
        let gate = gate.clone();
        let Order { message, insert, .. } = order.clone();
        let stored = store.write(move |tx| {
            let stored = tx.enqueue(&message)?;
            if stored.is_new() {
                tx.execute(&insert, [])?;
            }
            gate.pass(Stop::Placing, "");
            Ok(stored)
        });
        Ok(if stored.await?.is_duplicate() { Placed::Known } else { Placed::New })
    }

    fn handlers(stops: &Stops<Self>) -> Handlers<Self> {
        let own = stops.clone();
        let apply = move |ctx: &mut BlockingCtx<'_>| {
            let effect = Effect::of(ctx.message());
            own.enter(&ctx.message().id());
            ctx.tx().execute(&effect.0, [])?;
            own.pass(&ctx.message().id());
            Ok(None)
        };
        Handlers::new().on_topic_blocking(TOPIC_BLOCKING, apply).on_topic(TOPIC_ASYNC, audit).state(stops.clone())
    }

    async fn apply(ctx: &mut Ctx<Self>, effect: Effect) -> HandlerResult<()> {
        ctx.tx().await?.run(move |conn| conn.execute(&effect.0, [])).await?;
        Ok(())
    }

    fn fence(table: &str) -> String {
        format!(
            "CREATE TRIGGER fence BEFORE INSERT ON {table}_done
             WHEN EXISTS (SELECT 1 FROM {table}_held
                          WHERE from_seq <= NEW.from_seq AND to_seq >= NEW.from_seq AND owner IS NOT NEW.by)
             BEGIN INSERT INTO stale_settles (seq) VALUES (NEW.from_seq); END"
        )
    }

    const STATES: &'static str = "_state";

    fn digits_of(column: &str) -> String {
        format!("lower(hex({column}))")
    }
}

/// It asks a busy database again at once: the children do so too.
fn connect(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    conn.busy_handler(Some(|tries| {
        pace::wait(Duration::from_micros(200));
        tries < 50_000
    }))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

fn text(value: ValueRef<'_>) -> Result<String> {
    Ok(match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => std::str::from_utf8(text)?.to_owned(),
        other => bail!("neither a number nor a text: {other:?}"),
    })
}
