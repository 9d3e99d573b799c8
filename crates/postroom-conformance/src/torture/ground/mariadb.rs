//! MariaDB: two databases of one server.

use anyhow::{Context, Result};
use postroom::mysql::{MySql, MySqlOptions};
use postroom::sql::TableNames;
use postroom::{Ctx, HandlerResult, Handlers, Outbox};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

use super::server::{Desk, failed, ground_on_server, server, url};
use super::{Base, Ground, Line, Order, Placed, audit};
use crate::servers::Client;
use crate::torture::place::Place;
use crate::torture::worker::{Effect, Stops};

impl Ground for MySql {
    ground_on_server!(MySqlConnection, MySqlOptions);

    const LOCK: &'static str = "LOCK TABLES effects WRITE";
    const UNLOCK: &'static str = "UNLOCK TABLES";

    fn fence(table: &str) -> String {
        format!(
            "CREATE TRIGGER fence AFTER UPDATE ON {table}_taken FOR EACH ROW
             INSERT INTO stale_settles (seq) SELECT NEW.seq FROM DUAL
             WHERE OLD.done_at = 0 AND NEW.done_at <> 0 AND NOT (NEW.owner <=> OLD.owner)"
        )
    }

    const STATES: &'static str = "_state";

    fn digits_of(column: &str) -> String {
        format!("lower(hex({column}))")
    }
}
