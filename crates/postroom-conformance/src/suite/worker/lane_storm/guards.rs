//! What keeps lanes going on each database, and how to take it away. The locks that keep the order of commits are taken
//! away in the model (`lanes_model.rs`): here, too few transactions meet for a late commit to be found each time.

use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::sqlite::Sqlite;

use crate::case::Verdict;
use crate::harness::{Place, Testable};
use crate::on_server::OnServer;

/// A part of the protocol.
pub(super) struct Guard {
    pub(super) what: &'static str,
    pub(super) taken_away: &'static [&'static str],
    /// What the storm says then.
    pub(super) found: &'static str,
}

pub(super) trait Guarded: Testable {
    const GUARD: Guard;

    /// Runs a statement where the case's tables are.
    fn say(place: &Place, sql: &str) -> impl Future<Output = Verdict> + Send;
}

impl Guarded for Sqlite {
    const GUARD: Guard = Guard {
        what: "who has the turn is not asked",
        taken_away: &[
            "DROP TRIGGER outbox_messages_lane_looked",
            "CREATE TRIGGER outbox_messages_lane_looked INSTEAD OF UPDATE ON outbox_messages_lane_head BEGIN
                 UPDATE outbox_messages_lane SET place = 1 WHERE place = 0 AND lane = OLD.lane;
             END",
        ],
        found: "was claimed",
    };

    async fn say(place: &Place, sql: &str) -> Verdict {
        Ok(rusqlite::Connection::open(place.path("store.db"))?.execute_batch(sql)?)
    }
}

impl Guarded for Postgres {
    const GUARD: Guard = Guard {
        what: "an ack leaves no note",
        taken_away: &["DROP TRIGGER outbox_settled ON outbox_held"],
        found: "messages are left behind",
    };

    async fn say(place: &Place, sql: &str) -> Verdict {
        Self::tell(place, sql).await
    }
}

impl Guarded for MySql {
    const GUARD: Guard = Guard {
        what: "an arrival is no news",
        taken_away: &[
            "DROP TRIGGER infra_outbox_written",
            "CREATE TRIGGER infra_outbox_written AFTER INSERT ON infra_outbox FOR EACH ROW
             IF NEW.lane IS NULL THEN
                 INSERT INTO infra_outbox_line (visible_at, seq, place, expires_at, bytes)
                 VALUES (NEW.visible_at, NEW.seq, CONCAT('=', NEW.topic), NEW.expires_at, OCTET_LENGTH(NEW.payload));
             ELSE
                 INSERT INTO infra_outbox_lane (lane, no, seq, at, expires_at, bytes, route, news)
                 VALUES (NEW.lane, NEW.seq, NEW.seq, NEW.visible_at, NEW.expires_at, OCTET_LENGTH(NEW.payload),
                         CONCAT('=', NEW.topic), 0);
             END IF",
        ],
        found: "messages are left behind",
    };

    async fn say(place: &Place, sql: &str) -> Verdict {
        Self::tell(place, sql).await
    }
}
