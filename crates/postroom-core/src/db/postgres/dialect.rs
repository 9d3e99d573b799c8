//! PostgreSQL. A row that is read to be written is locked at the same time; rows that others have locked are skipped.
//! The CTE of a claim is materialized: as a subquery, a nested loop would run it again for each row and claim them all.

use crate::sql::dialect::{Dialect, Fence, Identity, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines, ManySql};
use crate::sql::purge::PurgeTexts;
use crate::sql::shared;
use crate::sql::text::Places;

#[macro_use]
mod words;

mod session;

pub(crate) use session::{
    BEGIN, BEGIN_HANDLER, BEGIN_PLAIN, DEPLOY_LOCK, FOR_VERBS, HAS_SETTINGS, HELLO, NOTIFY, POOLED_BEGIN_HANDLER,
    ROLL_BACK, SEAL,
};

/// A claim in one statement, of the rows for which this condition holds too.
macro_rules! claim {
    ($among:literal) => {
        concat!(
            "WITH durable AS MATERIALIZED (
                 SELECT {durable}
             ), line AS MATERIALIZED (
                 SELECT seq, visible_at, octet_length(payload) AS bytes FROM {t}
                 WHERE state = 0 AND visible_at <= ?1 AND visible_at >= ?5 AND (expires_at IS NULL OR expires_at > ?1)
                   AND ",
            $among,
            "
                 ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED
             ), chosen AS MATERIALIZED (
                 SELECT fitting.seq AS n, fitting.visible_at AS at
                 FROM durable, (SELECT seq, visible_at, row_number() OVER (ORDER BY visible_at, seq) AS place,
                                       sum(bytes) OVER (ORDER BY visible_at, seq) AS total FROM line) AS fitting
                 WHERE fitting.place <= ?7::bigint OR fitting.total <= ?6::bigint
             )
             UPDATE {t}
             SET state = 1, owner = ?3, locked_until = ?4, visible_at = ?4, claim_no = claim_no + 1,
                 last_attempt_at = ?1
             FROM chosen WHERE seq = chosen.n
             RETURNING {message}, chosen.at"
        )
    };
}

pub(crate) const POSTGRES: Dialect = Dialect {
    places: Places::Numbered("$"),
    casts: true,
    words: &[
        ("by_number", " = ANY (?1::bigint[])"),
        ("state_is", "state + 0 ="),
        ("lock", " FOR UPDATE"),
        ("skip", " FOR UPDATE SKIP LOCKED"),
        ("durable", durable!()),
        // Whether a claim covers a row: by its topic if it is handled here, otherwise by its destination. Each is a
        // list of names between line breaks, with a flag that says whether it means only these or all but these.
        (
            "among",
            "CASE WHEN {here} THEN (strpos(topic, chr(10)) = 0
                     AND strpos(?8::text, chr(10) || topic || chr(10)) > 0)::int = ?9::bigint
                 ELSE (strpos({destination}, chr(10)) = 0
                     AND strpos(?10::text, chr(10) || {destination} || chr(10)) > 0)::int = ?11::bigint END",
        ),
        ("leases", "unnest(?1::bigint[], ?2::uuid[], ?3::bigint[]) AS a (n, o, c)"),
    ],
    schema: include_str!("schema/0001_init.sql"),
    schema_each: None,
    create_schema: Some("CREATE SCHEMA IF NOT EXISTS {schema};\n\n"),
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 1,
    // `state + 0`: with `state = 1` the planner may scan the index of leased rows instead of using the primary key.
    fence: Fence {
        one: "state + 0 = 1 AND owner = ?2::uuid AND claim_no = ?3::bigint",
        each: Some("state + 0 = 1 AND owner = a.o AND claim_no = a.c"),
    },
    outbox: Identity::outbox("id, message_id, destination, NULL::bigint"),
    inbox: Identity::INBOX,
    insert_many: InsertMany::Answered {
        sql: "INSERT INTO {t} ({new})
             SELECT a.* FROM (SELECT {durable} OFFSET 0) AS once, unnest({new_arrays}) AS a ({new})
             ON CONFLICT (id) DO NOTHING RETURNING id",
        sizes: &[],
        null: None,
    },
    claim: Claim::AtOnce {
        take: Lines {
            all: claim!("crashes = 0"),
            topics: claim!("crashes = 0 AND {among}"),
            suspects: claim!("crashes > 0 AND {among}"),
        },
        look: "SELECT
             (SELECT visible_at FROM {t} WHERE state = 0 AND crashes = 0 AND visible_at >= ?2
              ORDER BY visible_at, seq LIMIT 1),
             (SELECT visible_at FROM {t} WHERE state = 1 AND visible_at >= ?3 ORDER BY visible_at, seq LIMIT 1),
             (SELECT expires_at FROM {t} WHERE state = 0 AND expires_at BETWEEN ?4 AND ?1 ORDER BY expires_at LIMIT 1)",
    },
    many: Some(ManySql {
        ack_many: "UPDATE {t}
             SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = ?5,
                 processed_by = a.o, response = coalesce(a.r, response)
             FROM (SELECT {durable} OFFSET 0) AS once,
                  unnest(?1::bigint[], ?2::uuid[], ?3::bigint[], ?4::text[]) AS a (n, o, c, r)
             WHERE seq = ANY (?1::bigint[]) AND seq = a.n AND {fence_each}",
        save_many: "UPDATE {t} SET {saved_each} FROM unnest({saved_arrays}) AS a ({saved_names})
             WHERE seq = ANY (?1::bigint[]) AND seq = a.v1 AND claim_no = a.v2",
        load_leases: "SELECT {bare} FROM {t}, {leases}
             WHERE seq = ANY (?1::bigint[]) AND seq = a.n AND {fence_each} ORDER BY seq FOR UPDATE OF {n}",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             SELECT * FROM unnest(?1::bigint[], ?2::bigint[], ?3::bigint[], ?4::uuid[], ?5::text[], ?6::text[])",
        failure_trim_many: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
                 SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
                 FROM {t}_failures WHERE seq = ANY (?1::bigint[])) AS ranked WHERE ranked.place > ?2::bigint)",
    }),
    ack_ranges: None,
    extend: Extend::Answered(
        "UPDATE {t} SET locked_until = ?4, visible_at = ?4 FROM {leases}
         WHERE seq = ANY (?1::bigint[]) AND seq = a.n AND state + 0 = 1 AND owner = a.o AND claim_no = a.c
         RETURNING seq, claim_no",
    ),
    runs: None,
    checks_saves: false,
    queue: QueueSql {
        ack: "UPDATE {t}
             SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = ?5::bigint,
                 processed_by = ?2::uuid, response = coalesce(?4::text, response)
             WHERE seq = ?1::bigint AND {fence} AND {durable} IS NOT NULL",
        expire_dead: "UPDATE {t} SET state = 4, processed_at = ?1 WHERE seq = ANY (ARRAY(
                 SELECT seq FROM {t} WHERE state = 3 AND expires_at <= ?1
                 ORDER BY expires_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED))",
        count: "SELECT 0, count(*) FROM {t} WHERE state = 0
             UNION ALL SELECT 1, count(*) FROM {t} WHERE state = 1
             UNION ALL SELECT 2, count(*) FROM {t} WHERE state = 2
             UNION ALL SELECT 3, count(*) FROM {t} WHERE state = 3
             UNION ALL SELECT 4, count(*) FROM {t} WHERE state = 4
             UNION ALL SELECT 7, count(*) FROM {t} WHERE state = 7",
        count_waiting: "SELECT (SELECT count(*) FROM {t} WHERE state = 0) + (SELECT count(*) FROM {t} WHERE state = 1)",
        // A message is one row, which stands in one place.
        misplaced: "SELECT 0::bigint",
        ..shared::QUEUE
    },
    in_state: shared::IN_STATE,
    purge: PurgeTexts {
        failures: Some(
            "DELETE FROM {t}_failures WHERE seq = ANY (ARRAY(
                 SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2 FOR UPDATE SKIP LOCKED))",
        ),
        rows: "DELETE FROM {t} WHERE seq = ANY (ARRAY(
                 SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2 FOR UPDATE SKIP LOCKED))",
        ended: shared::ENDED,
        seen: shared::SEEN,
    },
    questions: shared::QUESTIONS,
    // The column of the conflict is not named: naming it would require the permission to read it.
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values}) ON CONFLICT DO NOTHING",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    inbox_alone: InboxSql {
        accept: "INSERT INTO {t} ({new}, state) SELECT {new_values}, 0 WHERE {durable} IS NOT NULL
             ON CONFLICT (source, message_id) DO UPDATE SET {accepted_excluded}, state = 0 WHERE {t}.state = 5",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n,
                 (SELECT reltuples::bigint FROM pg_class WHERE oid = '{t}'::regclass)) END
             FROM (SELECT count(*) AS n FROM (SELECT 1 FROM {t} LIMIT 100000) AS seen) AS few",
        marks_purge: "DELETE FROM {t}_marks WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {t}_marks WHERE handler = ?1 AND marked_at < ?2
                 ORDER BY marked_at LIMIT ?3 FOR UPDATE SKIP LOCKED))",
        ..shared::INBOX
    },
    accept_seen: None,
    // Another transaction with the same message holds the lock, and nobody waits for it. Locks belong to the whole
    // database, so the key distinguishes our table from those of other tenants; the length of the source distinguishes
    // a/b and c from a and b/c.
    arrive: Arrive::Answered(
        "WITH twin AS MATERIALIZED (
             SELECT pg_try_advisory_xact_lock(hashtextextended(
                 length(?1::text) || '/' || ?1::text || '/' || ?2::text, '{t}'::regclass::oid::bigint)) AS free
         ), arrived AS (
             INSERT INTO {t} ({new}, state, last_attempt_at, locked_until, owner, claim_no)
             SELECT {new_values}, 1, {@created_at}, {@visible_at}, {@owner}, 1
             FROM twin WHERE free AND {durable} IS NOT NULL
             ON CONFLICT (source, message_id) DO NOTHING RETURNING seq
         ) SELECT free::int, (SELECT seq FROM arrived) FROM twin",
    ),
    idle_poll: Some(concat!(
        "SELECT (EXISTS (SELECT 1 FROM {outbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                OR EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND visible_at BETWEEN ?4 AND ?1))::int,
                (EXISTS (SELECT 1 FROM {inbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                OR EXISTS (SELECT 1 FROM {inbox} WHERE state = 1 AND visible_at BETWEEN ?5 AND ?1))::int, ",
        read_only!()
    )),
};

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence =
    Fence { one: "(?2::uuid IS NOT NULL OR ?3::bigint IS NOT NULL)", each: Some("a.o IS NOT NULL") };
