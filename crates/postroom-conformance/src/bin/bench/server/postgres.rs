//! Plain SQL on PostgreSQL.

use std::sync::Arc;

use postroom::postgres::{Postgres, PostgresOptions, PostgresStore};
use postroom::sql::TableNames;
use postroom::{Ctx, HandlerError};
use postroom_testbed::Engine;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::Notify;
use uuid::Uuid;

use super::Bed;

const SCHEMA: &str = "CREATE TABLE raw (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          uuid NOT NULL UNIQUE,
    topic       text NOT NULL,
    payload     text NOT NULL,
    state       smallint NOT NULL,
    due         bigint NOT NULL,
    lease_until bigint
) WITH (fillfactor = 80);
CREATE INDEX raw_ready ON raw (due, seq) WHERE state = 0;";
const INSERT: &str = "INSERT INTO raw (id, topic, payload, state, due) VALUES ($1, 'bench', $2, 0, 1)";
const INSERT_MANY: &str = "INSERT INTO raw (id, topic, payload, state, due)
    SELECT id, 'bench', payload, 0, 1 FROM unnest($1::uuid[], $2::text[]) AS new (id, payload)";
const CLAIM: &str = "WITH line AS MATERIALIZED (
        SELECT seq FROM raw WHERE state = 0 AND due <= 2 ORDER BY due, seq LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE raw SET state = 1, lease_until = 30000000 FROM line WHERE raw.seq = line.seq
    RETURNING raw.seq, raw.payload";
const ACK: &str = "UPDATE raw SET state = 2, lease_until = NULL WHERE seq = ANY ($1) AND state = 1";
const ACK_ONE: &str = "UPDATE raw SET state = 2, lease_until = NULL WHERE seq = $1 AND state = 1";
const EFFECTS: &str = "DROP TABLE IF EXISTS public.effects;
    CREATE TABLE public.effects (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL)";
const EFFECT: &str = "INSERT INTO public.effects (what) VALUES ('reserved')";
const NOTIFY: &str = "SELECT pg_notify('raw', '')";

impl Bed for Postgres {
    const NAME: &'static str = "postgres";
    const ENGINE: Engine = Engine::Postgres;
    type Raw = Raw;

    async fn open(url: &str, name: &str) -> anyhow::Result<PostgresStore> {
        let tables = TableNames::new("outbox", "inbox")?.in_schema(format!("bench_{name}"))?;
        Ok(PostgresOptions::new(url)?.tables(tables).deploy_schema(true).open().await?)
    }

    async fn calm_down(url: &str) -> anyhow::Result<()> {
        let mut conn = PgConnection::connect(url).await?;
        sqlx::raw_sql("CHECKPOINT").execute(&mut conn).await?;
        Ok(conn.close().await?)
    }

    async fn effect(ctx: &mut Ctx<Self>) -> Result<(), HandlerError> {
        sqlx::query(EFFECT).execute(ctx.tx().await?).await?;
        Ok(())
    }

    async fn finish_all(url: &str, name: &str) -> anyhow::Result<()> {
        let mut conn = PgConnection::connect(url).await?;
        let table = format!("bench_{name}.outbox");
        let done = format!("SELECT min(seq), max(seq), max(visible_at), 1 FROM {table}_line HAVING count(*) > 0");
        for sql in [
            format!("INSERT INTO {table}_done (from_seq, to_seq, at, no) {done}"),
            format!("DELETE FROM {table}_line"),
            format!("VACUUM ANALYZE {table}"),
            format!("VACUUM ANALYZE {table}_line"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
        }
        Ok(conn.close().await?)
    }
}

pub(crate) struct Raw(PgConnection);

impl super::Raw for Raw {
    const STATEMENTS: &'static [&'static str] = &[SCHEMA, INSERT, INSERT_MANY, CLAIM, ACK, ACK_ONE, EFFECT, NOTIFY];
    const TELLS_OTHERS: bool = true;
    type News = PgListener;

    async fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self(PgConnection::connect(url).await?))
    }

    async fn empty_table(&mut self) -> anyhow::Result<()> {
        sqlx::raw_sql("DROP TABLE IF EXISTS raw").execute(&mut self.0).await?;
        sqlx::raw_sql(SCHEMA).execute(&mut self.0).await?;
        Ok(())
    }

    async fn insert(&mut self, id: Uuid, payload: &str) -> anyhow::Result<()> {
        sqlx::query(INSERT).bind(id).bind(payload).execute(&mut self.0).await?;
        Ok(())
    }

    async fn news(url: &str, _: Arc<Notify>) -> anyhow::Result<PgListener> {
        let mut listener = PgListener::connect(url).await?;
        listener.listen("raw").await?;
        Ok(listener)
    }

    async fn next(news: &mut PgListener) -> anyhow::Result<()> {
        news.recv().await?;
        Ok(())
    }

    async fn insert_and_tell(&mut self, id: Uuid, payload: &str, _: &Notify) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        sqlx::query(INSERT).bind(id).bind(payload).execute(&mut *tx).await?;
        sqlx::query(NOTIFY).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn insert_many(&mut self, rows: Vec<(Uuid, String)>) -> anyhow::Result<()> {
        let (ids, payloads): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        sqlx::query(INSERT_MANY).bind(ids).bind(payloads).execute(&mut self.0).await?;
        Ok(())
    }

    async fn claim(&mut self, batch: i64) -> anyhow::Result<Vec<(i64, String)>> {
        Ok(sqlx::query_as(CLAIM).bind(batch).fetch_all(&mut self.0).await?)
    }

    async fn ack(&mut self, rows: &[(i64, String)]) -> anyhow::Result<()> {
        let seqs: Vec<i64> = rows.iter().map(|(seq, _)| *seq).collect();
        sqlx::query(ACK).bind(seqs).execute(&mut self.0).await?;
        Ok(())
    }

    async fn hold_snapshot(&mut self) -> anyhow::Result<()> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        sqlx::raw_sql(begin).execute(&mut self.0).await?;
        Ok(())
    }

    async fn log_position(&mut self) -> anyhow::Result<i64> {
        let position = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint";
        Ok(sqlx::query_scalar(position).fetch_one(&mut self.0).await?)
    }

    async fn empty_effects(&mut self) -> anyhow::Result<()> {
        sqlx::raw_sql(EFFECTS).execute(&mut self.0).await?;
        Ok(())
    }

    async fn handle(&mut self, seq: i64) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        sqlx::query(EFFECT).execute(&mut *tx).await?;
        sqlx::query(ACK_ONE).bind(seq).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}
