//! MySQL 8 and MariaDB. Transactions run under READ COMMITTED: rows are found through an index, locked, and written by
//! their number. MySQL sets columns from left to right, and each later assignment sees the new values of the earlier
//! ones.

use crate::sql::dialect::{Dialect, Fence, Identity, InStateSql, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines, ManySql};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::questions::QuestionSql;
use crate::sql::shared;
use crate::sql::steps::Steps;
use crate::sql::text::{Places, SIZES};

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
    };
}

/// Whether nothing can be written: on a replica, or on a primary that was demoted. Newer versions of MariaDB have more
/// values for it than on and off.
macro_rules! read_only {
    () => {
        "CAST(@@global.read_only AS CHAR) NOT IN ('OFF', '0')"
    };
}

/// Begins one of our own transactions. Answers with the server's time and whether it is read-only, in one round trip.
pub(crate) const BEGIN: &str =
    concat!("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// For connections that only run our own statements: a statement that commits by itself runs at this level too.
pub(crate) const FOR_VERBS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// Begins a handler's transaction. A deadlock rolls the whole transaction back, and the savepoint is gone with it. If
/// the handler ignores the deadlock, its next write must not commit by itself. The answer is the same as for our own
/// transactions.
pub(crate) const BEGIN_HANDLER: &str = concat!(
    "SET autocommit = 0; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
     START TRANSACTION; SAVEPOINT postroom_handler; SELECT ",
    clock!(),
    ", ",
    read_only!()
);
/// Rolls a transaction back, and answers whether the next one could write, in one round trip.
pub(crate) const ROLL_BACK: &str = concat!("ROLLBACK; SELECT ", clock!(), ", ", read_only!());
/// Fails if the transaction is no longer the one that was begun.
pub(crate) const RELEASE_HANDLER: &str = "RELEASE SAVEPOINT postroom_handler";
/// What a server must report before we trust it: its time, whether it is read-only, and its version.
pub(crate) const HELLO: &str = concat!("SELECT ", clock!(), ", ", read_only!(), ", version()");
/// Keeps two programs from deploying the schema at once.
pub(crate) const DEPLOY_LOCK: &str = "SELECT CAST(GET_LOCK('postroom_schema', 60) AS SIGNED)";
pub(crate) const DEPLOY_UNLOCK: &str = "SELECT RELEASE_LOCK('postroom_schema')";

pub(crate) const MYSQL: Dialect = Dialect {
    places: Places::Counted,
    casts: false,
    words: &[
        ("bytes", "CAST(octet_length(payload) AS SIGNED)"),
        // Without these conditions the server would scan the whole table, in the order of the numbers.
        ("by_work", " FORCE INDEX ({n}_work)"),
        ("by_expiry", " FORCE INDEX ({n}_expiring)"),
        ("by_finished", " FORCE INDEX ({n}_finished)"),
        ("lock", " FOR UPDATE"),
        ("skip", " FOR UPDATE SKIP LOCKED"),
        // Whether a claim covers a row: by its topic if it is handled here, otherwise by its destination. Each is a
        // list of names between line breaks, with a flag that says whether it means only these or all but these.
        (
            "among",
            "CASE WHEN {here}
                  THEN (LOCATE({br}, topic) = 0 AND LOCATE(CONCAT({br}, topic, {br}), ?8) > 0) = ?9
                  ELSE (LOCATE({br}, {destination}) = 0
                        AND LOCATE(CONCAT({br}, {destination}, {br}), ?10) > 0) = ?11 END",
        ),
        ("br", "CHAR(10 USING utf8mb4)"),
        // The columns that a claim reads: the message, its position, and its size. A large payload is read afterwards,
        // if there is room for it, because an answer arrives as a whole.
        (
            "claimed",
            "SELECT {message|IF(OCTET_LENGTH(payload) <= GREATEST(?6 DIV ?2, 1), payload, NULL)}, visible_at,
                    CAST(OCTET_LENGTH(payload) AS SIGNED) FROM {t}",
        ),
        ("in_time", "(expires_at IS NULL OR expires_at > ?1)"),
    ],
    schema: include_str!("schema/0001_init.sql"),
    schema_each: None,
    create_schema: None,
    secure: None,
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 1,
    steps: &Steps::NONE,
    fence: Fence {
        one: "state = 1 AND owner = ?2 AND claim_no = ?3",
        each: Some("t.state = 1 AND t.owner = a.o AND t.claim_no = a.c"),
    },
    outbox: Identity::outbox("id, message_id, destination, NULL"),
    inbox: Identity::INBOX,
    insert_many: InsertMany::AllOrNone { sql: "INSERT INTO {t} ({new}) VALUES {each|({new_marks})|, }", sizes: &SIZES },
    claim: Claim::Listed {
        select: Lines {
            all: "{claimed}{by_work} WHERE state = 0 AND visible_at BETWEEN ?5 AND ?1 AND {in_time} AND crashes = 0
                 ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED",
            topics: "{claimed}{by_work} WHERE state = 0 AND visible_at BETWEEN ?5 AND ?1 AND {in_time} AND crashes = 0
                   AND {among} ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED",
            suspects: "{claimed} FORCE INDEX ({n}_suspects) WHERE suspect_at <= ?1 AND {in_time} AND {among}
                 ORDER BY suspect_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED",
        },
        lease: "UPDATE {t}
             SET state = 1, owner = ?1, locked_until = ?2, visible_at = ?2, claim_no = claim_no + 1,
                 last_attempt_at = ?3
             WHERE seq IN ({list|?|, })",
        look: "SELECT
             (SELECT visible_at FROM {t}{by_work} WHERE state = 0 AND crashes = 0 AND visible_at >= ?2
              ORDER BY visible_at LIMIT 1),
             (SELECT visible_at FROM {t}{by_work} WHERE state = 1 AND visible_at >= ?3 ORDER BY visible_at LIMIT 1),
             (SELECT expires_at FROM {t} WHERE state = 0 AND expires_at BETWEEN ?4 AND ?1 ORDER BY expires_at LIMIT 1)",
    },
    many: Some(ManySql {
        ack_many: "UPDATE {t} AS t
             JOIN ({list|SELECT ? AS n, ? AS o, ? AS c, ? AS r| UNION ALL }) AS a ON t.seq = a.n
             SET t.state = 2, t.owner = NULL, t.locked_until = NULL, t.visible_at = NULL, t.processed_at = ?1,
                 t.processed_by = a.o, t.response = coalesce(a.r, t.response)
             WHERE {fence_each}",
        save_many: "UPDATE {t} AS t
             JOIN ({each|SELECT {saved_named_marks}| UNION ALL }) AS a ON t.seq = a.v1 AND t.claim_no = a.v2
             SET {saved_each}",
        load_leases: "SELECT {bare} FROM {t} AS t
             JOIN ({list|SELECT ? AS n, ? AS o, ? AS c| UNION ALL }) AS a ON t.seq = a.n
             WHERE {fence_each} ORDER BY t.seq FOR UPDATE",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             VALUES {each|(?, ?, ?, ?, ?, ?)|, }",
        failure_trim_many: "DELETE f FROM {t}_failures AS f
             JOIN (SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
                   FROM {t}_failures WHERE seq IN ({list|?|, })) AS ranked ON f.no = ranked.no
             WHERE ranked.place > ?1",
    }),
    extend: Extend::Each("UPDATE {t} SET locked_until = ?4, visible_at = ?4 WHERE seq = ?1 AND {fence}"),
    runs: None,
    checks_saves: false,
    queue: QueueSql {
        suspects_next: "SELECT suspect_at FROM {t} FORCE INDEX ({n}_suspects) WHERE suspect_at IS NOT NULL AND {among}
             ORDER BY suspect_at LIMIT 1",
        expire_dead: "UPDATE {t} SET state = 4, processed_at = ?1
             WHERE state = 3 AND expires_at <= ?1 ORDER BY expires_at, seq LIMIT ?2",
        failure_trim: "DELETE f FROM {t}_failures AS f
             JOIN (SELECT no FROM {t}_failures WHERE seq = ?1 ORDER BY no DESC LIMIT 1000 OFFSET ?2) AS old
               ON f.no = old.no",
        // A message is one row, which stands in one place.
        misplaced: "SELECT 0",
        ..shared::QUEUE
    },
    in_state: InStateSql {
        // Each row separately: counting them on the server needs a temporary table whose key is so wide that it goes to
        // disk, and takes five times as long as sending the rows.
        groups: "SELECT topic, {party}, {error}, 1, processed_at, processed_at, seq
             FROM {t}{by_finished} WHERE state = {state} AND seq >= ?1",
        ..shared::IN_STATE
    },
    purge: PurgeTexts {
        failures: Some(
            "DELETE f FROM {t}_failures AS f
             JOIN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2) AS gone ON f.seq = gone.seq",
        ),
        rows: "DELETE FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2",
        ended: shared::ENDED,
        // An index on the time they were last seen would contain every row. Instead, all rows that were only seen are
        // scanned.
        seen: Old { rows: "state = {state} AND processed_at IS NULL AND last_seen_at < ?1", age: "last_seen_at" },
    },
    questions: QuestionSql {
        keys: "SELECT source, message_id FROM {t} WHERE message_id = ?1 OR concat(source, '/', message_id) = ?1
             ORDER BY seq",
        ..shared::QUESTIONS
    },
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values})",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    inbox_alone: InboxSql {
        insert: INBOX_INSERT,
        accept: INBOX_INSERT,
        see: "INSERT INTO {t} (source, message_id, hash, payload, created_at, last_seen_at)
             VALUES (?1, ?2, ?3, '', ?4, ?4)",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n, coalesce(
                 (SELECT CAST(table_rows AS SIGNED) FROM information_schema.tables WHERE table_name = '{n}'
                  AND table_schema = coalesce(nullif(trim(TRAILING '.' FROM '{s}'), ''), database())), 0)) END
             FROM (SELECT count(*) AS n FROM (SELECT 1 AS one FROM {t} LIMIT 100000) AS seen) AS few",
        mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        marks_purge: "DELETE FROM {t}_marks WHERE handler = ?1 AND marked_at < ?2 ORDER BY marked_at LIMIT ?3",
        ..shared::INBOX
    },
    accept_seen: Some(shared::ACCEPT_SEEN),
    arrive: Arrive::Looked {
        look: "SELECT {record} FROM {t} WHERE {key} FOR UPDATE NOWAIT",
        insert: "INSERT INTO {t} ({new}, state, last_attempt_at, locked_until, owner, claim_no)
             VALUES ({new_values}, 1, {@created_at}, {@visible_at}, {@owner}, 1)",
        seq: "SELECT CAST(last_insert_id() AS SIGNED)",
    },
    idle_poll: Some(concat!(
        "SELECT EXISTS (SELECT 1 FROM {outbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                OR EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND visible_at BETWEEN ?4 AND ?1),
                EXISTS (SELECT 1 FROM {inbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                OR EXISTS (SELECT 1 FROM {inbox} WHERE state = 1 AND visible_at BETWEEN ?5 AND ?1), ",
        read_only!()
    )),
};

const INBOX_INSERT: &str = "INSERT INTO {t} ({new}, state) VALUES ({new_values}, 0)";

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: Some("a.o IS NOT NULL") };
