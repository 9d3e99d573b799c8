//! Plain SQL on MariaDB.

use std::sync::Arc;

use postroom::mysql::{MySql, MySqlOptions, MySqlStore};
use postroom::{Ctx, HandlerError};
use postroom_testbed::Engine;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, QueryBuilder};
use tokio::sync::Notify;
use uuid::Uuid;

use super::Bed;

const SCHEMA: &str = "CREATE TABLE raw (
    seq         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id          BINARY(16) NOT NULL UNIQUE,
    topic       VARCHAR(255) NOT NULL,
    payload     LONGTEXT NOT NULL,
    state       SMALLINT NOT NULL,
    due         BIGINT NOT NULL,
    lease_until BIGINT,
    KEY raw_ready (state, due)
) ENGINE = InnoDB;";
const INSERT: &str = "INSERT INTO raw (id, topic, payload, state, due) VALUES (?, 'bench', ?, 0, 1)";
const INSERT_MANY: &str = "INSERT INTO raw (id, topic, payload, state, due) ";
const CLAIM: &str = "SELECT seq, payload FROM raw WHERE state = 0 AND due <= 2
    ORDER BY due, seq LIMIT ? FOR UPDATE SKIP LOCKED";
const TAKE: &str = "UPDATE raw SET state = 1, lease_until = 30000000 WHERE seq IN (";
const ACK: &str = "UPDATE raw SET state = 2, lease_until = NULL WHERE state = 1 AND seq IN (";
const ACK_ONE: &str = "UPDATE raw SET state = 2, lease_until = NULL WHERE state = 1 AND seq = ?";
const EFFECTS: &str = "DROP TABLE IF EXISTS postroom.effects;
    CREATE TABLE postroom.effects (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, what TEXT NOT NULL)";
const EFFECT: &str = "INSERT INTO postroom.effects (what) VALUES ('reserved')";
/// The number of pages that are not written to the disk yet.
const DIRTY: &str = "SELECT variable_value FROM information_schema.global_status
    WHERE variable_name = 'Innodb_buffer_pool_pages_dirty'";
const FEW_PAGES: u64 = 100;
/// The number of rows in one statement.
const ROWS: usize = 500;

impl Bed for MySql {
    const NAME: &'static str = "mariadb";
    const ENGINE: Engine = Engine::MariaDb;
    type Raw = Raw;

    async fn open(url: &str, name: &str) -> anyhow::Result<MySqlStore> {
        let mut conn = MySqlConnection::connect(url).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE IF NOT EXISTS bench_{name}"))).execute(&mut conn).await?;
        let url = url.replace("/postroom?", &format!("/bench_{name}?"));
        Ok(MySqlOptions::new(&url)?.deploy_schema(true).open().await?)
    }

    async fn calm_down(url: &str) -> anyhow::Result<()> {
        let mut conn = MySqlConnection::connect(url).await?;
        sqlx::raw_sql("FLUSH TABLES; SET GLOBAL innodb_max_dirty_pages_pct = 0").execute(&mut conn).await?;
        // It writes pages out at its own pace.
        while sqlx::query_scalar::<_, String>(DIRTY).fetch_one(&mut conn).await?.parse::<u64>()? > FEW_PAGES {
            crate::measure::quiet().await;
        }
        sqlx::raw_sql("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT").execute(&mut conn).await?;
        Ok(conn.close().await?)
    }

    async fn effect(ctx: &mut Ctx<Self>) -> Result<(), HandlerError> {
        sqlx::query(EFFECT).execute(ctx.tx().await?).await?;
        Ok(())
    }

    async fn finish_all(url: &str, name: &str) -> anyhow::Result<()> {
        let mut conn = MySqlConnection::connect(url).await?;
        let table = format!("bench_{name}.infra_outbox");
        let done = "(seq, lease, claim_no, at, done_at) SELECT seq, 0, 1, created_at, created_at";
        for sql in [
            format!("INSERT INTO {table}_taken {done} FROM {table}"),
            format!("TRUNCATE TABLE {table}_line"),
            format!("ANALYZE TABLE {table}, {table}_line, {table}_taken"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
        }
        Ok(conn.close().await?)
    }
}

pub(crate) struct Raw(MySqlConnection);

impl Raw {
    async fn claim_once(&mut self, batch: i64) -> anyhow::Result<Vec<(i64, String)>> {
        sqlx::raw_sql("START TRANSACTION").execute(&mut self.0).await?;
        let claimed = sqlx::query_as(CLAIM).bind(batch).fetch_all(&mut self.0).await?;
        if !claimed.is_empty() {
            self.list(TAKE, &claimed).await?;
        }
        sqlx::raw_sql("COMMIT").execute(&mut self.0).await?;
        Ok(claimed)
    }

    /// Returns the statement with this many values in its list.
    async fn list(&mut self, text: &str, rows: &[(i64, String)]) -> anyhow::Result<()> {
        let mut query = QueryBuilder::new(text);
        let mut values = query.separated(", ");
        for (seq, _) in rows {
            values.push_bind(*seq);
        }
        query.push(")").build().execute(&mut self.0).await?;
        Ok(())
    }
}

/// Four workers that update the same index meet now and then. The server rolls one of them back.
fn is_deadlock(error: &anyhow::Error) -> bool {
    let database = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    database.and_then(|error| error.code()).as_deref() == Some("40001")
}

impl super::Raw for Raw {
    const STATEMENTS: &'static [&'static str] = &[SCHEMA, INSERT, INSERT_MANY, CLAIM, TAKE, ACK, ACK_ONE, EFFECT];
    const TELLS_OTHERS: bool = false;
    type News = Arc<Notify>;

    async fn connect(url: &str) -> anyhow::Result<Self> {
        let mut conn = MySqlConnection::connect(url).await?;
        sqlx::raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut conn).await?;
        Ok(Self(conn))
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

    async fn news(_: &str, signal: Arc<Notify>) -> anyhow::Result<Arc<Notify>> {
        Ok(signal)
    }

    async fn next(news: &mut Arc<Notify>) -> anyhow::Result<()> {
        news.notified().await;
        Ok(())
    }

    async fn insert_and_tell(&mut self, id: Uuid, payload: &str, signal: &Notify) -> anyhow::Result<()> {
        self.insert(id, payload).await?;
        signal.notify_one();
        Ok(())
    }

    async fn insert_many(&mut self, rows: Vec<(Uuid, String)>) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        for chunk in rows.chunks(ROWS) {
            let mut query = QueryBuilder::new(INSERT_MANY);
            query.push_values(chunk, |mut row, (id, payload)| {
                row.push_bind(*id).push("'bench'").push_bind(payload).push("0").push("1");
            });
            query.build().execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn claim(&mut self, batch: i64) -> anyhow::Result<Vec<(i64, String)>> {
        loop {
            match self.claim_once(batch).await {
                Err(error) if is_deadlock(&error) => {}
                claimed => return claimed,
            }
        }
    }

    async fn ack(&mut self, rows: &[(i64, String)]) -> anyhow::Result<()> {
        loop {
            match self.list(ACK, rows).await {
                Err(error) if is_deadlock(&error) => {}
                acked => return acked,
            }
        }
    }

    async fn hold_snapshot(&mut self) -> anyhow::Result<()> {
        let begin = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
            START TRANSACTION WITH CONSISTENT SNAPSHOT";
        sqlx::raw_sql(begin).execute(&mut self.0).await?;
        Ok(())
    }

    async fn log_position(&mut self) -> anyhow::Result<i64> {
        let position = "SELECT variable_value FROM information_schema.global_status
            WHERE variable_name = 'Innodb_lsn_current'";
        Ok(sqlx::query_scalar::<_, String>(position).fetch_one(&mut self.0).await?.parse()?)
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
