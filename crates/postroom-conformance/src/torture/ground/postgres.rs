//! PostgreSQL: two databases of one server.

use anyhow::{Context, Result};
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::sql::TableNames;
use postroom::{Ctx, HandlerResult, Handlers, Outbox};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::server::{Desk, failed, ground_on_server, server, url};
use super::{Base, Ground, Line, Order, Placed, audit};
use crate::servers::Client;
use crate::torture::place::Place;
use crate::torture::worker::{Effect, Stops};

impl Ground for Postgres {
    ground_on_server!(PgConnection, PostgresOptions);

    const LOCK: &'static str = "BEGIN; LOCK TABLE effects IN EXCLUSIVE MODE";
    const UNLOCK: &'static str = "ROLLBACK";

    fn fence(table: &str) -> String {
        format!(
            "CREATE FUNCTION note_stale_settle() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO stale_settles (seq) VALUES (NEW.seq); RETURN NULL; END';
             CREATE TRIGGER fence AFTER UPDATE OF state ON {table} FOR EACH ROW
             WHEN (OLD.state = 1 AND NEW.state > 1 AND NEW.processed_by IS DISTINCT FROM OLD.owner)
             EXECUTE FUNCTION note_stale_settle()"
        )
    }

    fn digits_of(column: &str) -> String {
        format!("replace({column}::text, '-', '')")
    }

    fn id(id: uuid::Uuid) -> String {
        format!("'{id}'")
    }
}
