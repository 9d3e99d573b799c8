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
            "CREATE TABLE held_by (seq bigint PRIMARY KEY, owner uuid);
             CREATE FUNCTION note_holder() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO held_by VALUES (OLD.seq, OLD.owner)
                        ON CONFLICT (seq) DO UPDATE SET owner = excluded.owner; RETURN NULL; END';
             CREATE TRIGGER holder AFTER DELETE ON {table}_held FOR EACH ROW EXECUTE FUNCTION note_holder();
             CREATE FUNCTION note_stale_settle() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO stale_settles (seq) SELECT seq FROM held_by
                        WHERE seq BETWEEN NEW.from_seq AND NEW.to_seq AND owner IS DISTINCT FROM NEW.\"by\";
                        RETURN NULL; END';
             CREATE TRIGGER fence AFTER INSERT ON {table}_done FOR EACH ROW EXECUTE FUNCTION note_stale_settle()"
        )
    }

    const STATES: &'static str = "_state";

    fn digits_of(column: &str) -> String {
        format!("replace({column}::text, '-', '')")
    }

    fn id(id: uuid::Uuid) -> String {
        format!("'{id}'")
    }
}
