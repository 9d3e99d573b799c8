//! SQLite. Everything runs under `BEGIN IMMEDIATE`, so a row that was read has not changed when it is written. A `+`
//! before a column keeps the planner from using an index on it.

use crate::sql::dialect::{Dialect, Fence, Identity, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::shared;
use crate::sql::text::Places;

pub(crate) const SQLITE: Dialect = Dialect {
    places: Places::Numbered("?"),
    casts: false,
    words: &[
        ("no", "rowid"),
        ("by_finished", " INDEXED BY {t}_finished"),
        ("waiting", " AND visible_at IS NOT NULL"),
        ("ended", " AND processed_at IS NOT NULL"),
        // Whether a claim covers a row: by its topic if it is handled here, otherwise by its destination. Each is a
        // list of names between line breaks, with a flag that says whether it means only these or all but these.
        (
            "among",
            "CASE WHEN {here} THEN (instr(topic, char(10)) = 0 AND instr(?8, char(10) || topic || char(10)) > 0) = ?9
             ELSE (instr({destination}, char(10)) = 0
                   AND instr(?10, char(10) || {destination} || char(10)) > 0) = ?11 END",
        ),
        // The columns that a claim reads: the message, its position, and its size.
        ("claimed", "SELECT {message}, visible_at, octet_length(payload) FROM {t}"),
        ("in_time", "(expires_at IS NULL OR expires_at > ?1)"),
        ("leased", "state = 1, owner = ?3, locked_until = ?4, visible_at = ?4, claim_no = claim_no + 1"),
    ],
    schema: include_str!("schema/0001_init.sql"),
    schema_each: None,
    create_schema: None,
    schema_drop: None,
    schema_version: 1,
    fence: Fence { one: "state = 1 AND owner = ?2 AND claim_no = ?3", each: None },
    outbox: Identity::outbox("id, message_id, destination, NULL"),
    inbox: Identity::INBOX,
    insert_many: InsertMany::Each,
    claim: Claim::Embedded {
        select: Lines {
            all: "{claimed} WHERE state = 0 AND visible_at <= ?1 AND {in_time} AND crashes = 0
                 ORDER BY visible_at, seq LIMIT ?2",
            topics: "{claimed} WHERE state = 0 AND visible_at BETWEEN ?5 AND ?1 AND {in_time} AND crashes = 0
                   AND {among} ORDER BY visible_at, seq LIMIT ?2",
            suspects: "{claimed} INDEXED BY {t}_suspects WHERE state = 0 AND crashes > 0 AND visible_at <= ?1
                   AND {in_time} AND {among} ORDER BY visible_at, seq LIMIT ?2",
        },
        lease: "UPDATE {t}
             SET state = 1, owner = ?2, locked_until = ?3, visible_at = ?3, claim_no = claim_no + 1,
                 last_attempt_at = ?4
             WHERE seq = ?1 AND state = 0",
        lease_all: "UPDATE {t} SET {leased}, last_attempt_at = ?1
             WHERE seq IN (SELECT seq FROM {t}
                           WHERE state = 0 AND visible_at <= ?1 AND {in_time} AND crashes = 0
                           ORDER BY visible_at, seq LIMIT ?2)",
        next: "SELECT min(at) FROM (
                 SELECT * FROM (SELECT visible_at AS at FROM {t}
                                WHERE state = 0 AND visible_at IS NOT NULL AND crashes = 0
                                ORDER BY visible_at LIMIT 1)
                 UNION ALL SELECT min(visible_at) FROM {t} WHERE state = 1 AND visible_at IS NOT NULL)",
    },
    many: None,
    extend: Extend::Each("UPDATE {t} SET locked_until = ?4, visible_at = ?4 WHERE seq = ?1 AND {fence}"),
    checks_saves: false,
    queue: QueueSql {
        suspects_next: "SELECT visible_at FROM {t} INDEXED BY {t}_suspects WHERE state = 0 AND crashes > 0 AND {among}
             ORDER BY visible_at LIMIT 1",
        load_expired: "SELECT {bare} FROM {t} WHERE +state = 0 AND visible_at IS NOT NULL AND expires_at <= ?1
             ORDER BY expires_at LIMIT ?2",
        count_overdue: "SELECT count(*) FROM (
                 SELECT 1 FROM {t} WHERE +state = 0 AND visible_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2)",
        count: "SELECT state, count(*) FROM {t} WHERE visible_at IS NOT NULL GROUP BY state
             UNION ALL SELECT state, count(*) FROM {t} WHERE processed_at IS NOT NULL GROUP BY state",
        count_waiting: "SELECT count(*) FROM {t} WHERE visible_at IS NOT NULL",
        ..shared::QUEUE
    },
    in_state: shared::IN_STATE,
    purge: PurgeTexts {
        failures: Some(
            "DELETE FROM {t}_failures WHERE seq IN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2)",
        ),
        rows: "DELETE FROM {t} WHERE seq IN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2)",
        ended: shared::ENDED,
        seen: Old {
            rows: "state = {state} AND visible_at IS NULL AND processed_at IS NULL AND last_seen_at < ?1",
            age: "last_seen_at",
        },
    },
    questions: shared::QUESTIONS,
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values}) ON CONFLICT (id) DO NOTHING",
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = ?1 OR message_id = ?1 ORDER BY seq",
    inbox_alone: InboxSql {
        count: "SELECT state, count(*) FROM {t} WHERE visible_at IS NULL AND processed_at IS NULL GROUP BY state",
        ..shared::INBOX
    },
    accept_seen: None,
    arrive: Arrive::Answered(
        "INSERT INTO {t} ({new}, state, last_attempt_at, locked_until, owner, claim_no)
         VALUES ({new_values}, 1, {@created_at}, {@visible_at}, {@owner}, 1)
         ON CONFLICT (source, message_id) DO NOTHING RETURNING 1, seq",
    ),
    idle_poll: None,
};

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: None };
