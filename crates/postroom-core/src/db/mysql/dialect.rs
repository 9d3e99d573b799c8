//! MySQL 8 and MariaDB. Under READ COMMITTED: rows are found through an index, locked, and written by their number.
//! MySQL sets columns from left to right, and each later one sees what the earlier ones became.

mod questions;

use crate::sql::dialect::{Batch, Dialect, Fence, Identity, QueueSql, UNUSED};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::text::Places;

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
    };
}

/// Whether nothing can be written: on a replica, or on a primary that was demoted. Newer servers of MariaDB have more
/// words for it than on and off.
macro_rules! read_only {
    () => {
        "CAST(@@global.read_only AS CHAR) NOT IN ('OFF', '0')"
    };
}

/// Begins one of our own transactions and answers with the server's time and whether it is read-only: one trip.
pub(crate) const BEGIN: &str =
    concat!("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// For connections that only run our own statements: one that commits itself runs at this level too.
pub(crate) const FOR_VERBS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// Begins a handler's transaction. A deadlock rolls it back as a whole: then the savepoint is gone, and what a handler
/// that overlooked it writes next must not commit by itself. It answers as ours do.
pub(crate) const BEGIN_HANDLER: &str = concat!(
    "SET autocommit = 0; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
     START TRANSACTION; SAVEPOINT postroom_handler; SELECT ",
    clock!(),
    ", ",
    read_only!()
);
/// Undoes a transaction, and says whether the next one could write: one trip.
pub(crate) const ROLL_BACK: &str = concat!("ROLLBACK; SELECT ", clock!(), ", ", read_only!());
/// Fails when the transaction is no longer the one that was begun.
pub(crate) const RELEASE_HANDLER: &str = "RELEASE SAVEPOINT postroom_handler";
/// What a server must say of itself before we trust it: its time, whether it is read-only, its version.
pub(crate) const HELLO: &str = concat!("SELECT ", clock!(), ", ", read_only!(), ", version()");
/// Keeps two programs from deploying the schema at once.
pub(crate) const DEPLOY_LOCK: &str = "SELECT CAST(GET_LOCK('postroom_schema', 60) AS SIGNED)";
pub(crate) const DEPLOY_UNLOCK: &str = "SELECT RELEASE_LOCK('postroom_schema')";

/// Whether a row is among those of a claim: by its topic when it is handled here, by its destination otherwise. Each is
/// a list of names between line breaks, and whether these alone are meant or all but these.
macro_rules! among {
    ($topics:literal, $only_topics:literal, $destinations:literal, $only_destinations:literal) => {
        concat!(
            "CASE WHEN {here} THEN (",
            named!("topic", $topics),
            ") = ",
            $only_topics,
            " ELSE (",
            named!("{destination}", $destinations),
            ") = ",
            $only_destinations,
            " END"
        )
    };
}

macro_rules! named {
    ($name:literal, $names:literal) => {
        concat!(
            "LOCATE(CHAR(10 USING utf8mb4), ",
            $name,
            ") = 0 AND LOCATE(CONCAT(CHAR(10 USING utf8mb4), ",
            $name,
            ", CHAR(10 USING utf8mb4)), ",
            $names,
            ") > 0"
        )
    };
}

/// What a claim reads: the message, where it stood, and how large it is. A large payload is read afterwards, if there
/// is room for it: an answer comes as a whole.
macro_rules! claimed {
    ($index:literal) => {
        concat!(
            "SELECT seq, claim_no, attempts, crashes, max_attempts, due_at, created_at, expires_at, last_error,
                    correlation_id, headers, kind, topic, IF(OCTET_LENGTH(payload) <= ?3, payload, NULL), {identity},
                    visible_at, CAST(OCTET_LENGTH(payload) AS SIGNED)
             FROM {t} FORCE INDEX ({n}_",
            $index,
            ")"
        )
    };
}

pub(crate) const MYSQL: Dialect = Dialect {
    places: Places::Counted,
    batch: Batch::Rows,
    schema: include_str!("schema/0001_init.sql"),
    schema_each: UNUSED,
    create_schema: UNUSED,
    schema_drop: include_str!("schema/0001_drop.sql"),
    schema_version: 1,
    schema_read: "SELECT version FROM {s}postroom_schema WHERE outbox = ?1 AND inbox = ?2",
    maintenance_take: "UPDATE {s}postroom_schema SET maintained_at = ?3
         WHERE outbox = ?1 AND inbox = ?2 AND (maintained_at <= ?4 OR maintained_at > ?5)",
    fence: Fence {
        one: "state = 1 AND owner = ?2 AND claim_no = ?3",
        each: "t.state = 1 AND t.owner = a.o AND t.claim_no = a.c",
    },
    message: "seq, claim_no, attempts, crashes, max_attempts, due_at, created_at, expires_at, last_error,
         correlation_id, headers, kind, topic, payload, {identity}",
    record: "{message}, state, next_attempt_at, owner, locked_until, last_attempt_at, processed_at, processed_by,
         response, dismissed_by, dismissed_why",
    brief: "seq, attempts, processed_at, expires_at, substr(last_error, 1, {error_chars}), topic, {identity}, {party},
         state, claim_no, due_at, created_at, dismissed_by, dismissed_why",
    queue: QUEUE,
    purge: PURGE,
    questions: questions::QUESTIONS,
    outbox: Identity {
        columns: "id, message_id, destination, NULL",
        key: "id = ?1",
        party: "destination",
        here: "destination IS NULL",
        destination: "destination",
    },
    inbox: Identity {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = ?1 AND message_id = ?2",
        party: "source",
        here: "1 = 1",
        destination: "''",
    },
    outbox_insert: "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    outbox_insert_batch: "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         VALUES {each|(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)|, }",
    inbox_insert: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?12, ?13)",
    inbox_accept: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?12, ?13)",
    inbox_accept_seen: "UPDATE {t}
         SET kind = ?3, topic = ?4, payload = ?5, hash = ?6, headers = ?7, correlation_id = ?8, state = 0,
             visible_at = ?9, due_at = ?10, max_attempts = ?11, last_seen_at = ?12, expires_at = ?13
         WHERE source = ?1 AND message_id = ?2 AND state = 5",
    inbox_arrive: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at, last_attempt_at, locked_until, owner, claim_no)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?12, ?13, ?12, ?9, ?14, 1)",
    inbox_arrive_look: "SELECT {record} FROM {t} WHERE {key} FOR UPDATE NOWAIT",
    inbox_arrive_seq: "SELECT CAST(last_insert_id() AS SIGNED)",
    inbox_handled: UNUSED,
    inbox_see: "INSERT INTO {t} (source, message_id, hash, payload, created_at, last_seen_at)
         VALUES (?1, ?2, ?3, '', ?4, ?4)",
    inbox_touch: "UPDATE {t} SET last_seen_at = ?2, hash = coalesce(hash, ?3) WHERE seq = ?1",
    inbox_content: "UPDATE {t}
         SET kind = ?2, topic = ?3, payload = ?4, hash = ?5, headers = ?6, correlation_id = ?7, last_seen_at = ?8,
             max_attempts = ?9
         WHERE seq = ?1",
    inbox_begin: "UPDATE {t} SET state = 6, attempts = attempts + 1, last_attempt_at = ?2
         WHERE seq = ?1 AND state IN (5, 6)",
    inbox_count: "SELECT state, count(*) FROM {t} WHERE state IN (5, 6) GROUP BY state",
    inbox_size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n, coalesce(
             (SELECT CAST(table_rows AS SIGNED) FROM information_schema.tables WHERE table_name = '{n}'
              AND table_schema = coalesce(nullif(trim(TRAILING '.' FROM '{s}'), ''), database())), 0)) END
         FROM (SELECT count(*) AS n FROM (SELECT 1 AS one FROM {t} LIMIT 100000) AS seen) AS few",
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = ?1
         UNION ALL SELECT {record} FROM {t} WHERE message_id = ?1 AND id <> ?1 ORDER BY seq",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    mark_find: "SELECT marked_at, topic FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3 AND marked_at = ?4",
    marks_purge: "DELETE FROM {t}_marks WHERE handler = ?1 AND marked_at < ?2 ORDER BY marked_at LIMIT ?3",
    idle_poll: concat!(
        "SELECT EXISTS (SELECT 1 FROM {outbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                OR EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND visible_at BETWEEN ?4 AND ?1),
                EXISTS (SELECT 1 FROM {inbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                OR EXISTS (SELECT 1 FROM {inbox} WHERE state = 1 AND visible_at BETWEEN ?5 AND ?1), ",
        read_only!()
    ),
};

/// Rows in one finished state. Without the index it would look through the whole table, in the order of the numbers.
const LIST_FINISHED: &str = "SELECT {record} FROM {t} FORCE INDEX ({n}_finished)
         WHERE state = ?1 AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6";

/// The same, without what they hold.
const BRIEF_FINISHED: &str = "SELECT {brief} FROM {t} FORCE INDEX ({n}_finished)
         WHERE state = ?1 AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6";

/// The number of one row in a finished state, so many places behind the newest.
const NTH_NEWEST: &str = "SELECT seq FROM {t} FORCE INDEX ({n}_finished) WHERE state = ?1
         ORDER BY seq DESC LIMIT 1 OFFSET ?2";

/// Rows in one finished state from a number on, each by itself: counting them here takes a temporary table with so wide
/// a key that it goes to the disk, and five times as long as sending them.
const GROUPS_FINISHED: &str =
    "SELECT topic, {party}, substr(last_error, 1, {error_chars}), 1, processed_at, processed_at, seq
         FROM {t} FORCE INDEX ({n}_finished) WHERE state = ?1 AND seq >= ?2";

const QUEUE: QueueSql = QueueSql {
    // The first that is ready, the first lease that ends, and the first message that is past its time.
    claim_look: "SELECT
         (SELECT visible_at FROM {t} FORCE INDEX ({n}_work) WHERE state = 0 AND crashes = 0 AND visible_at >= ?2
          ORDER BY visible_at LIMIT 1),
         (SELECT visible_at FROM {t} FORCE INDEX ({n}_work) WHERE state = 1 AND visible_at >= ?3
          ORDER BY visible_at LIMIT 1),
         (SELECT expires_at FROM {t} WHERE state = 0 AND expires_at BETWEEN ?4 AND ?1 ORDER BY expires_at LIMIT 1)",
    claim_select: concat!(
        claimed!("work"),
        " WHERE state = 0 AND visible_at BETWEEN ?4 AND ?1 AND (expires_at IS NULL OR expires_at > ?1) AND crashes = 0
         ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED"
    ),
    claim_line: "UPDATE {t}
         SET state = 1, owner = ?1, locked_until = ?2, visible_at = ?2, claim_no = claim_no + 1, last_attempt_at = ?3
         WHERE seq IN ({each|?|, })",
    claim_one: UNUSED,
    claim_next: UNUSED,
    topics_select: concat!(
        claimed!("work"),
        " WHERE state = 0 AND visible_at BETWEEN ?8 AND ?1 AND (expires_at IS NULL OR expires_at > ?1) AND crashes = 0
           AND ",
        among!("?4", "?5", "?6", "?7"),
        " ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED"
    ),
    topics_line: UNUSED,
    topics_next: concat!(
        "SELECT min(at) FROM (
             (SELECT visible_at AS at FROM {t} FORCE INDEX ({n}_work)
              WHERE state = 0 AND crashes = 0 AND visible_at >= ?5 AND ",
        among!("?1", "?2", "?3", "?4"),
        " ORDER BY visible_at, seq LIMIT 1)
             UNION ALL SELECT min(visible_at) FROM {t} WHERE state = 1) AS waiting"
    ),
    suspects_select: concat!(
        claimed!("suspects"),
        " WHERE suspect_at <= ?1 AND (expires_at IS NULL OR expires_at > ?1) AND ",
        among!("?4", "?5", "?6", "?7"),
        " ORDER BY suspect_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED"
    ),
    suspects_line: UNUSED,
    suspects_next: concat!(
        "SELECT suspect_at FROM {t} FORCE INDEX ({n}_suspects) WHERE suspect_at IS NOT NULL AND ",
        among!("?1", "?2", "?3", "?4"),
        " ORDER BY suspect_at LIMIT 1"
    ),
    ack: "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = ?4, processed_by = ?2,
             response = coalesce(?5, response)
         WHERE seq = ?1 AND {fence}",
    ack_batch: "UPDATE {t} AS t
         JOIN ({each|SELECT ? AS n, ? AS o, ? AS c, ? AS r| UNION ALL }) AS a ON t.seq = a.n
         SET t.state = 2, t.owner = NULL, t.locked_until = NULL, t.visible_at = NULL, t.processed_at = ?1,
             t.processed_by = a.o, t.response = coalesce(a.r, t.response)
         WHERE {fence_each}",
    extend: "UPDATE {t} SET locked_until = ?4, visible_at = ?4 WHERE seq = ?1 AND {fence}",
    extend_batch: UNUSED,
    held: "SELECT 1 FROM {t} WHERE seq = ?1 AND {fence}",
    load_lease: "SELECT {bare} FROM {t} WHERE seq = ?1 AND {fence} FOR UPDATE",
    load_leases: "SELECT {bare} FROM {t} AS t
         JOIN ({each|SELECT ? AS n, ? AS o, ? AS c| UNION ALL }) AS a ON t.seq = a.n
         WHERE {fence_each} ORDER BY t.seq FOR UPDATE",
    load_claimed: "SELECT {record} FROM {t} FORCE INDEX ({n}_work) WHERE state = 1 AND visible_at = ?1 AND owner = ?2
         ORDER BY seq",
    load_over: "SELECT {bare} FROM {t} FORCE INDEX ({n}_work) WHERE state = 1 AND visible_at <= ?1
         ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED",
    load_expired: "SELECT {bare} FROM {t} FORCE INDEX ({n}_expiring) WHERE state = 0 AND expires_at <= ?1
         ORDER BY expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED",
    load_key: "SELECT {record} FROM {t} WHERE {key} FOR UPDATE",
    find_key: "SELECT {record} FROM {t} WHERE {key}",
    list: "SELECT {record} FROM {t}
         WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6",
    list_done: LIST_FINISHED,
    list_dead: LIST_FINISHED,
    list_expired: LIST_FINISHED,
    list_dismissed: LIST_FINISHED,
    list_rows: "SELECT {record} FROM {t} WHERE seq IN ({each|?|, })",
    brief_done: BRIEF_FINISHED,
    brief_dead: BRIEF_FINISHED,
    brief_expired: BRIEF_FINISHED,
    brief_dismissed: BRIEF_FINISHED,
    brief_rows: "SELECT {brief} FROM {t} WHERE seq IN ({each|?|, })",
    put_back: "UPDATE {t}
         SET state = ?4, visible_at = ?5, next_attempt_at = ?6, attempts = ?7, crashes = ?8, processed_at = ?9,
             expires_at = ?10, processed_by = NULL, response = NULL
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3",
    dismiss: "UPDATE {t}
         SET state = 7, visible_at = NULL, processed_at = ?4, dismissed_by = ?5, dismissed_why = ?6
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3",
    expire_dead: "UPDATE {t} SET state = 4, processed_at = ?1
         WHERE state = 3 AND expires_at <= ?1 ORDER BY expires_at, seq LIMIT ?2",
    nth_newest_dead: NTH_NEWEST,
    nth_newest_expired: NTH_NEWEST,
    groups_dead: GROUPS_FINISHED,
    groups_expired: GROUPS_FINISHED,
    count_overdue: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t} FORCE INDEX ({n}_expiring)
             WHERE state = 0 AND expires_at <= ?1 LIMIT ?2) AS late",
    count_purgeable: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t} WHERE state = 2 AND processed_at < ?1 LIMIT ?2) AS old",
    save: "UPDATE {t}
         SET response = ?16, state = ?3, visible_at = ?4, due_at = ?5,
             next_attempt_at = ?6, attempts = ?7, crashes = ?8, owner = ?10, locked_until = ?11, last_error = ?12,
             processed_at = ?13, processed_by = ?14, expires_at = ?15, claim_no = ?9
         WHERE seq = ?1 AND claim_no = ?2",
    save_batch: "UPDATE {t} AS t
         JOIN ({each|SELECT ? AS v1, ? AS v2, ? AS v3, ? AS v4, ? AS v5, ? AS v6, ? AS v7, ? AS v8, ? AS v9, ? AS v10,
                     ? AS v11, ? AS v12, ? AS v13, ? AS v14, ? AS v15, ? AS v16| UNION ALL }) AS a
           ON t.seq = a.v1 AND t.claim_no = a.v2
         SET t.response = a.v16, t.state = a.v3, t.visible_at = a.v4, t.due_at = a.v5, t.next_attempt_at = a.v6,
             t.attempts = a.v7, t.crashes = a.v8, t.owner = a.v10, t.locked_until = a.v11, t.last_error = a.v12,
             t.processed_at = a.v13, t.processed_by = a.v14, t.expires_at = a.v15, t.claim_no = a.v9",
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    failure_add_batch: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         VALUES {each|(?, ?, ?, ?, ?, ?)|, }",
    failure_trim_batch: "DELETE f FROM {t}_failures AS f
         JOIN (SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
               FROM {t}_failures WHERE seq IN ({each|?|, })) AS ranked ON f.no = ranked.no
         WHERE ranked.place > ?1",
    failure_trim: "DELETE f FROM {t}_failures AS f
         JOIN (SELECT no FROM {t}_failures WHERE seq = ?1 ORDER BY no DESC LIMIT 1000 OFFSET ?2) AS old
           ON f.no = old.no",
    failure_list: "SELECT at, attempt, worker, error, code FROM {t}_failures WHERE seq = ?1 ORDER BY no",
    hold_remove: "DELETE FROM {t}_holds
         WHERE kind = ?1 AND name = ?2 AND owner = ?3 OR tried_at < ?4",
    hold_add: "INSERT INTO {t}_holds (kind, name, owner, since, tried_at, code, why)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    hold_list: "SELECT kind, name, since, tried_at, code, why FROM {t}_holds ORDER BY kind, name",
    audit_more: "UPDATE {t}_audit SET messages = messages + ?3 WHERE act = ?1 AND what = ?2",
    audit_add: "INSERT INTO {t}_audit (act, what, messages, at, who, why, chosen)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    audit_list: "SELECT at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC LIMIT ?1",
    count_to: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t} WHERE state = 0 AND {destination} = ?1 AND NOT ({here}) LIMIT ?2) AS waiting",
    count_of: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t} WHERE state = 0 AND {here} AND topic = ?1 LIMIT ?2) AS waiting",
    count: "SELECT state, count(*) FROM {t} WHERE state IN (0, 1, 2, 3, 4, 7) GROUP BY state",
    count_waiting: "SELECT count(*) FROM {t} WHERE state IN (0, 1)",
    oldest: "SELECT created_at, visible_at FROM {t} WHERE state = 0 ORDER BY visible_at, seq LIMIT 1",
    ahead_leased: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} FORCE INDEX ({n}_work) WHERE state = 1 AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
    ahead_ready: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} FORCE INDEX ({n}_work) WHERE state = 0 AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
    ahead_set: "UPDATE {t}
         SET visible_at = ?4, next_attempt_at = ?5, locked_until = ?6, last_attempt_at = ?7,
             created_at = ?8
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3 AND visible_at = ?9",
};

const PURGE: PurgeTexts = PurgeTexts {
    failures: "DELETE f FROM {t}_failures AS f
         JOIN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2) AS gone ON f.seq = gone.seq",
    rows: "DELETE FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2",
    ended: Old { rows: "state = {state} AND processed_at < ?1", age: "processed_at" },
    // An index on the time they were last seen would have every row in it. So all that were only seen are looked at.
    seen: Old { rows: "state = {state} AND processed_at IS NULL AND last_seen_at < ?1", age: "last_seen_at" },
};

/// For a test only: a settle that does not ask who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: "a.o IS NOT NULL" };
