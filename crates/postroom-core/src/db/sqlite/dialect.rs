//! SQLite. Everything runs under `BEGIN IMMEDIATE`, so a row that was read is still so when it is written.
//! A `+` before a column keeps the planner from using an index on it.

mod questions;

use crate::sql::dialect::{Batch, Dialect, Fence, Identity, QueueSql, UNUSED};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::text::Places;

/// Whether a row is among those of a claim: by its topic when it is handled here, by its destination otherwise. Each is
/// a list of names between line breaks, and whether these alone are meant or all but these.
macro_rules! among {
    ($topics:literal, $only_topics:literal, $destinations:literal, $only_destinations:literal) => {
        concat!(
            "CASE WHEN {here} THEN (instr(topic, char(10)) = 0 AND instr(",
            $topics,
            ", char(10) || topic || char(10)) > 0) = ",
            $only_topics,
            " ELSE (instr({destination}, char(10)) = 0 AND instr(",
            $destinations,
            ", char(10) || {destination} || char(10)) > 0) = ",
            $only_destinations,
            " END"
        )
    };
}

/// What a claim reads: the message, where it stood, and how large it is. The third value is for other databases.
macro_rules! claimed {
    () => {
        "SELECT {message}, visible_at, octet_length(payload) FROM {t}"
    };
}

pub(crate) const SQLITE: Dialect = Dialect {
    places: Places::Numbered,
    batch: Batch::EachRow,
    schema: include_str!("schema/0001_init.sql"),
    schema_each: UNUSED,
    create_schema: UNUSED,
    schema_drop: UNUSED,
    schema_version: 1,
    schema_read: "SELECT version FROM postroom_schema WHERE outbox = ?1 AND inbox = ?2",
    maintenance_take: "UPDATE postroom_schema SET maintained_at = ?3
         WHERE outbox = ?1 AND inbox = ?2 AND (maintained_at <= ?4 OR maintained_at > ?5)",
    fence: Fence { one: "state = 1 AND owner = ?2 AND claim_no = ?3", each: UNUSED },
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
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (id) DO NOTHING",
    outbox_insert_batch: UNUSED,
    inbox_insert: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?12, ?13)
         ON CONFLICT (source, message_id) DO NOTHING",
    inbox_accept: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?12, ?13)
         ON CONFLICT (source, message_id) DO UPDATE
         SET kind = excluded.kind, topic = excluded.topic, payload = excluded.payload, hash = excluded.hash,
             headers = excluded.headers, correlation_id = excluded.correlation_id, state = 0,
             visible_at = excluded.visible_at, due_at = excluded.due_at, max_attempts = excluded.max_attempts,
             last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at
         WHERE {t}.state = 5",
    inbox_accept_seen: UNUSED,
    inbox_arrive: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at, last_attempt_at, locked_until, owner, claim_no)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?12, ?13, ?12, ?9, ?14, 1)
         ON CONFLICT (source, message_id) DO NOTHING RETURNING 1, seq",
    inbox_arrive_look: UNUSED,
    inbox_arrive_seq: UNUSED,
    inbox_handled: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, due_at, max_attempts,
              created_at, last_seen_at, expires_at, last_attempt_at, claim_no, processed_at, processed_by, response)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 2, ?9, ?10, ?11, ?11, ?12, ?11, 1, ?11, ?13, ?14)",
    inbox_see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (source, message_id) DO NOTHING",
    inbox_touch: "UPDATE {t} SET last_seen_at = ?2, hash = coalesce(hash, ?3) WHERE seq = ?1",
    inbox_content: "UPDATE {t}
         SET kind = ?2, topic = ?3, payload = ?4, hash = ?5, headers = ?6, correlation_id = ?7, last_seen_at = ?8,
             max_attempts = ?9
         WHERE seq = ?1",
    inbox_begin: "UPDATE {t} SET state = 6, attempts = attempts + 1, last_attempt_at = ?2
         WHERE seq = ?1 AND state IN (5, 6)",
    inbox_count: "SELECT state, count(*) FROM {t} WHERE visible_at IS NULL AND processed_at IS NULL GROUP BY state",
    inbox_size: "SELECT CASE WHEN n < 100000 THEN n
             ELSE max(n, (SELECT max(seq) FROM {t}) - (SELECT min(seq) FROM {t}) + 1) END
         FROM (SELECT count(*) AS n FROM (SELECT 1 FROM {t} LIMIT 100000))",
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = ?1 OR message_id = ?1 ORDER BY seq",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (source, message_id, handler) DO NOTHING",
    mark_find: "SELECT marked_at, topic FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3 AND marked_at = ?4",
    marks_purge: "DELETE FROM {t}_marks WHERE (source, message_id, handler) IN
             (SELECT source, message_id, handler FROM {t}_marks
              WHERE handler = ?1 AND marked_at < ?2 ORDER BY marked_at LIMIT ?3)",
    idle_poll: UNUSED,
};

/// Rows in one finished state.
const LIST_FINISHED: &str = "SELECT {record} FROM {t} INDEXED BY {t}_finished
         WHERE state = ?1 AND processed_at IS NOT NULL
           AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6";

/// The same, without what they hold.
const BRIEF_FINISHED: &str = "SELECT {brief} FROM {t} INDEXED BY {t}_finished
         WHERE state = ?1 AND processed_at IS NOT NULL
           AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6";

/// The number of one row in a finished state, so many places behind the newest.
const NTH_NEWEST: &str = "SELECT seq FROM {t} INDEXED BY {t}_finished WHERE state = ?1 AND processed_at IS NOT NULL
         ORDER BY seq DESC LIMIT 1 OFFSET ?2";

/// Rows in one finished state from a number on, counted by what they ended with.
const GROUPS_FINISHED: &str = "SELECT topic, party, error, count(*), min(processed_at), max(processed_at), min(seq)
         FROM (SELECT topic, {party} AS party, substr(last_error, 1, {error_chars}) AS error, processed_at, seq
               FROM {t} INDEXED BY {t}_finished WHERE state = ?1 AND processed_at IS NOT NULL AND seq >= ?2)
         GROUP BY topic, party, error";

const QUEUE: QueueSql = QueueSql {
    claim_look: UNUSED,
    claim_select: concat!(
        claimed!(),
        " WHERE state = 0 AND visible_at <= ?1 AND (expires_at IS NULL OR expires_at > ?1) AND crashes = 0 AND ?3 > 0
         ORDER BY visible_at, seq LIMIT ?2"
    ),
    claim_line: "UPDATE {t}
         SET state = 1, owner = ?1, locked_until = ?2, visible_at = ?2, claim_no = claim_no + 1, last_attempt_at = ?3
         WHERE seq IN (SELECT seq FROM {t}
                       WHERE state = 0 AND visible_at <= ?3 AND (expires_at IS NULL OR expires_at > ?3) AND crashes = 0
                       ORDER BY visible_at, seq LIMIT ?4)",
    claim_one: "UPDATE {t}
         SET state = 1, owner = ?1, locked_until = ?2, visible_at = ?2, claim_no = claim_no + 1, last_attempt_at = ?3
         WHERE seq = ?4 AND state = 0",
    claim_next: "SELECT min(at) FROM (
             SELECT * FROM (SELECT visible_at AS at FROM {t} WHERE state = 0 AND visible_at IS NOT NULL AND crashes = 0
                            ORDER BY visible_at LIMIT 1)
             UNION ALL SELECT min(visible_at) FROM {t} WHERE state = 1 AND visible_at IS NOT NULL)",
    topics_select: concat!(
        claimed!(),
        " WHERE state = 0 AND visible_at BETWEEN ?8 AND ?1 AND (expires_at IS NULL OR expires_at > ?1) AND crashes = 0
           AND ?3 > 0 AND ",
        among!("?4", "?5", "?6", "?7"),
        " ORDER BY visible_at, seq LIMIT ?2"
    ),
    topics_line: UNUSED,
    topics_next: concat!(
        "SELECT min(at) FROM (
             SELECT * FROM (SELECT visible_at AS at FROM {t} WHERE state = 0 AND visible_at >= ?5 AND crashes = 0 AND ",
        among!("?1", "?2", "?3", "?4"),
        " ORDER BY visible_at LIMIT 1)
             UNION ALL SELECT min(visible_at) FROM {t} WHERE state = 1 AND visible_at IS NOT NULL)"
    ),
    suspects_select: concat!(
        claimed!(),
        " INDEXED BY {t}_suspects WHERE state = 0 AND crashes > 0 AND visible_at <= ?1
           AND (expires_at IS NULL OR expires_at > ?1) AND ?3 > 0 AND ",
        among!("?4", "?5", "?6", "?7"),
        " ORDER BY visible_at, seq LIMIT ?2"
    ),
    suspects_line: UNUSED,
    suspects_next: concat!(
        "SELECT visible_at FROM {t} INDEXED BY {t}_suspects WHERE state = 0 AND crashes > 0 AND ",
        among!("?1", "?2", "?3", "?4"),
        " ORDER BY visible_at LIMIT 1"
    ),
    ack: "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = ?4, processed_by = ?2,
             response = coalesce(?5, response)
         WHERE seq = ?1 AND {fence}",
    ack_batch: UNUSED,
    extend: "UPDATE {t} SET locked_until = ?4, visible_at = ?4 WHERE seq = ?1 AND {fence}",
    extend_batch: UNUSED,
    held: "SELECT 1 FROM {t} WHERE seq = ?1 AND {fence}",
    load_lease: "SELECT {bare} FROM {t} WHERE seq = ?1 AND {fence}",
    load_leases: UNUSED,
    load_claimed: "SELECT {record} FROM {t} WHERE state = 1 AND visible_at = ?1 AND owner = ?2 ORDER BY seq",
    load_over: "SELECT {bare} FROM {t} WHERE state = 1 AND visible_at <= ?1 ORDER BY visible_at, seq LIMIT ?2",
    load_expired: "SELECT {bare} FROM {t} WHERE +state = 0 AND visible_at IS NOT NULL AND expires_at <= ?1
         ORDER BY expires_at LIMIT ?2",
    load_key: "SELECT {record} FROM {t} WHERE {key}",
    find_key: "SELECT {record} FROM {t} WHERE {key}",
    list: "SELECT {record} FROM {t}
         WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR {party} = ?3)
           AND (?4 IS NULL OR processed_at >= ?4) AND seq > ?5 AND seq <= ?7
         ORDER BY seq LIMIT ?6",
    list_done: LIST_FINISHED,
    list_dead: LIST_FINISHED,
    list_expired: LIST_FINISHED,
    list_dismissed: LIST_FINISHED,
    list_rows: "SELECT {record} FROM {t} WHERE seq = ?1",
    brief_done: BRIEF_FINISHED,
    brief_dead: BRIEF_FINISHED,
    brief_expired: BRIEF_FINISHED,
    brief_dismissed: BRIEF_FINISHED,
    brief_rows: "SELECT {brief} FROM {t} WHERE seq = ?1",
    put_back: "UPDATE {t}
         SET state = ?4, visible_at = ?5, next_attempt_at = ?6, attempts = ?7, crashes = ?8, processed_at = ?9,
             expires_at = ?10, processed_by = NULL, response = NULL
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3",
    dismiss: "UPDATE {t}
         SET state = 7, visible_at = NULL, processed_at = ?4, dismissed_by = ?5, dismissed_why = ?6
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3",
    expire_dead: "UPDATE {t} SET state = 4, processed_at = ?1
         WHERE seq IN (SELECT seq FROM {t} WHERE state = 3 AND expires_at <= ?1 ORDER BY expires_at, seq LIMIT ?2)",
    nth_newest_dead: NTH_NEWEST,
    nth_newest_expired: NTH_NEWEST,
    groups_dead: GROUPS_FINISHED,
    groups_expired: GROUPS_FINISHED,
    count_overdue: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE +state = 0 AND visible_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2)",
    count_purgeable: "SELECT count(*) FROM (SELECT 1 FROM {t} WHERE state = 2 AND processed_at < ?1 LIMIT ?2)",
    save: "UPDATE {t}
         SET state = ?3, visible_at = ?4, due_at = ?5, next_attempt_at = ?6, attempts = ?7, crashes = ?8, claim_no = ?9,
             owner = ?10, locked_until = ?11, last_error = ?12, processed_at = ?13, processed_by = ?14,
             expires_at = ?15, response = ?16
         WHERE seq = ?1 AND claim_no = ?2",
    save_batch: UNUSED,
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    failure_add_batch: UNUSED,
    failure_trim_batch: UNUSED,
    failure_trim: "DELETE FROM {t}_failures
         WHERE seq = ?1 AND rowid NOT IN
               (SELECT rowid FROM {t}_failures WHERE seq = ?1 ORDER BY rowid DESC LIMIT ?2)",
    failure_list: "SELECT at, attempt, worker, error, code FROM {t}_failures WHERE seq = ?1 ORDER BY rowid",
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
             SELECT 1 FROM {t}
             WHERE state = 0 AND visible_at IS NOT NULL AND {destination} = ?1 AND NOT ({here}) LIMIT ?2)",
    count_of: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 0 AND visible_at IS NOT NULL AND {here} AND topic = ?1 LIMIT ?2)",
    count: "SELECT state, count(*) FROM {t} WHERE visible_at IS NOT NULL GROUP BY state
         UNION ALL SELECT state, count(*) FROM {t} WHERE processed_at IS NOT NULL GROUP BY state",
    count_waiting: "SELECT count(*) FROM {t} WHERE visible_at IS NOT NULL",
    oldest: "SELECT created_at, visible_at FROM {t} WHERE state = 0 AND visible_at IS NOT NULL
         ORDER BY visible_at, seq LIMIT 1",
    ahead_leased: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} WHERE state = 1 AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
    ahead_ready: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} WHERE state = 0 AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
    ahead_set: "UPDATE {t}
         SET visible_at = ?4, next_attempt_at = ?5, locked_until = ?6, last_attempt_at = ?7,
             created_at = ?8
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3 AND visible_at = ?9",
};

const PURGE: PurgeTexts = PurgeTexts {
    failures: "DELETE FROM {t}_failures WHERE seq IN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2)",
    rows: "DELETE FROM {t} WHERE seq IN (SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT ?2)",
    ended: Old { rows: "state = {state} AND processed_at < ?1", age: "processed_at" },
    seen: Old {
        rows: "state = {state} AND visible_at IS NULL AND processed_at IS NULL AND last_seen_at < ?1",
        age: "last_seen_at",
    },
};

/// For a test only: a settle that does not ask who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: UNUSED };
