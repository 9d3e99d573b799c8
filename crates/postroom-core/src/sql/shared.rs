//! Statements that several databases share. A dialect contains only the statements that differ. The statements here use
//! LIMIT, so a database without it needs its own.

use crate::sql::dialect::{InStateSql, InboxSql, QueueSql};
use crate::sql::questions::QuestionSql;

/// The default replacements of words.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("error", "substr(last_error, 1, {error_chars})"),
    ("bytes", "octet_length(payload)"),
    // To drop a smaller payload would cost more than it saves.
    ("large", "{bytes} > 1024"),
    // The number of a failure.
    ("no", "no"),
    ("by_number", " IN ({list|?|, })"),
    // A settle finds its row by number, so the database must not look it up by state.
    ("state_is", "state ="),
    // Where messages are read and moved: by number or key, and by state.
    ("v", "{t}"),
    ("f", "{t}"),
    // What an update of a view needs, so that its rows can be counted.
    ("returning", ""),
    // Indexes that must be named, and conditions that an index needs.
    ("by_work", ""),
    ("by_expiry", ""),
    ("by_finished", ""),
    ("waiting", ""),
    ("ended", ""),
    // A row that is read to be written, and one that is skipped while others hold it.
    ("lock", ""),
    ("skip", ""),
    // A key that somebody else has locked is left for later.
    ("of_key", ""),
    // The conditions of the lists. Rows are selected by a range of numbers, so that an index can be used.
    (
        "filter",
        "(?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR {party} = ?2)
           AND (?3 IS NULL OR processed_at >= ?3) AND seq > ?4 AND seq <= ?6",
    ),
    // What is reported of a message, besides what happened to it and when.
    ("told", "{identity}, topic, {party}"),
    ("failures", "{t}_failures AS f JOIN {t} AS m ON m.seq = f.seq"),
];

/// The version of the tables, and the lowest version that a program must know.
///
/// Tables of the first version have no column `needs`: then the name is that of the outer query, which says that a
/// program must know this version.
pub(crate) const SCHEMA_READ: &str = "SELECT version, coalesce((
         SELECT needs FROM {s}postroom_schema WHERE outbox = ?1 AND inbox = ?2), version)
     FROM (SELECT version, version AS needs FROM {s}postroom_schema WHERE outbox = ?1 AND inbox = ?2) AS found";
/// Takes the maintenance for an interval. If one row changed, this worker has it.
pub(crate) const MAINTENANCE_TAKE: &str = "UPDATE {s}postroom_schema SET maintained_at = ?3
     WHERE outbox = ?1 AND inbox = ?2 AND (maintained_at <= ?4 OR maintained_at > ?5)";
/// Payloads of messages of the inbox that were done until then have been dropped, unless they are small.
pub(crate) const PAYLOADS_FROM: &str = "SELECT payloads_from FROM {s}postroom_schema WHERE outbox = ?1 AND inbox = ?2";
pub(crate) const PAYLOADS_DROPPED: &str =
    "UPDATE {s}postroom_schema SET payloads_from = ?3 WHERE outbox = ?1 AND inbox = ?2";
/// A row of the outbox, by its own id or by its message's id.
pub(crate) const OUTBOX_BY_MESSAGE: &str = "SELECT {record} FROM {v} WHERE id = ?1
     UNION ALL SELECT {record} FROM {v} WHERE message_id = ?1 AND id <> ?1 ORDER BY seq";

pub(crate) const QUEUE: QueueSql = QueueSql {
    topics_next: "SELECT min(at) FROM (
             SELECT * FROM (SELECT visible_at AS at FROM {t}{by_work}
                            WHERE state = 0 AND crashes = 0 AND visible_at >= ?5 AND {among}
                            ORDER BY visible_at, seq LIMIT 1) AS front
             UNION ALL SELECT min(visible_at) FROM {t} WHERE state = 1{waiting}) AS waiting",
    suspects_next: "SELECT visible_at FROM {t} WHERE state = 0 AND crashes > 0 AND {among}
         ORDER BY visible_at, seq LIMIT 1",
    ack: "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = ?5, processed_by = ?2,
             response = coalesce(?4, response)
         WHERE seq = ?1 AND {fence}",
    held: "SELECT 1 FROM {v} WHERE seq = ?1 AND {fence}",
    load_lease: "SELECT {bare} FROM {v} WHERE seq = ?1 AND {fence}{lock}",
    load_claimed: "SELECT {record} FROM {f}{by_work} WHERE state = 1 AND visible_at = ?1 AND owner = ?2 ORDER BY seq",
    load_over: "SELECT {bare} FROM {f}{by_work} WHERE state = 1 AND visible_at <= ?1
         ORDER BY visible_at, seq LIMIT ?2{skip}",
    load_expired: "SELECT {bare} FROM {t}{by_expiry} WHERE state = 0 AND expires_at <= ?1
         ORDER BY expires_at LIMIT ?2{skip}",
    load_key: "SELECT {record} FROM {v} WHERE {key}{lock}",
    find_key: "SELECT {record} FROM {v} WHERE {key}",
    list: "SELECT {record} FROM {v} WHERE (?7 IS NULL OR state = ?7) AND {filter} ORDER BY seq LIMIT ?5",
    list_rows: "SELECT {record} FROM {v} WHERE seq{by_number}",
    brief_rows: "SELECT {brief} FROM {v} WHERE seq{by_number}",
    save: "UPDATE {v} SET {saved} WHERE seq = ?1 AND claim_no = ?2{returning}",
    put_back: "UPDATE {v}
         SET state = ?4, visible_at = ?5, next_attempt_at = ?6, attempts = ?7, crashes = ?8, processed_at = ?9,
             expires_at = ?10, processed_by = NULL, response = NULL
         WHERE seq = ?1 AND claim_no = ?2 AND {state_is} ?3{returning}",
    dismiss: "UPDATE {v}
         SET state = 7, visible_at = NULL, processed_at = ?4, dismissed_by = ?5, dismissed_why = ?6
         WHERE seq = ?1 AND claim_no = ?2 AND {state_is} ?3{returning}",
    expire_dead: "UPDATE {t} SET state = 4, processed_at = ?1
         WHERE seq IN (SELECT seq FROM {t} WHERE state = 3 AND expires_at <= ?1 ORDER BY expires_at, seq LIMIT ?2)",
    count_overdue: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t}{by_expiry} WHERE state = 0 AND expires_at <= ?1 LIMIT ?2) AS late",
    count_purgeable: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t} WHERE state = 2 AND processed_at < ?1 LIMIT ?2) AS old",
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    failure_trim: "DELETE FROM {t}_failures
         WHERE seq = ?1 AND {no} NOT IN (SELECT {no} FROM {t}_failures WHERE seq = ?1 ORDER BY {no} DESC LIMIT ?2)",
    failure_list: "SELECT at, attempt, worker, error, code FROM {t}_failures WHERE seq = ?1 ORDER BY {no}",
    hold_remove: "DELETE FROM {t}_holds WHERE kind = ?1 AND name = ?2 AND owner = ?3 OR tried_at < ?4",
    hold_add: "INSERT INTO {t}_holds (kind, name, owner, since, tried_at, code, why)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    hold_list: "SELECT kind, name, since, tried_at, code, why FROM {t}_holds ORDER BY kind, name",
    audit_more: "UPDATE {t}_audit SET messages = messages + ?3 WHERE act = ?1 AND what = ?2",
    audit_add: "INSERT INTO {t}_audit (act, what, messages, at, who, why, chosen)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    audit_list: "SELECT at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC LIMIT ?1",
    count_to: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {f}
             WHERE state = 0{waiting} AND {destination} = ?1 AND NOT ({here}) LIMIT ?2) AS waiting",
    count_of: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {f} WHERE state = 0{waiting} AND {here} AND topic = ?1 LIMIT ?2) AS waiting",
    count_held_to: "SELECT count(*) FROM {f} WHERE state = 1 AND {destination} = ?1 AND NOT ({here})",
    count_held_of: "SELECT count(*) FROM {f} WHERE state = 1 AND {here} AND topic = ?1",
    count: "SELECT state, count(*) FROM {t} WHERE state IN (0, 1, 2, 3, 4, 7) GROUP BY state",
    count_waiting: "SELECT count(*) FROM {t} WHERE state IN (0, 1)",
    oldest: "SELECT created_at, visible_at FROM {t} WHERE state = 0{waiting} ORDER BY visible_at, seq LIMIT 1",
    ahead_set: "UPDATE {v}
         SET visible_at = ?4, next_attempt_at = ?5, locked_until = ?6, last_attempt_at = ?7, created_at = ?8
         WHERE seq = ?1 AND claim_no = ?2 AND state = ?3 AND visible_at = ?9{returning}",
    // The messages that do not stand in exactly one place, up to a thousand.
    misplaced: "SELECT count(*) FROM (SELECT 1 AS one FROM {t}_misplaced LIMIT 1000) AS wrong",
    lane_rows: "SELECT no, seq FROM {t}_lane WHERE lane = ?1 AND no > ?2 AND place < 2 ORDER BY no LIMIT ?3",
};

pub(crate) const IN_STATE: InStateSql = InStateSql {
    list: "SELECT {listed} FROM {f}{by_finished} WHERE state = {state}{ended} AND {filter} ORDER BY seq LIMIT ?5",
    nth_newest: "SELECT seq FROM {f}{by_finished} WHERE state = {state}{ended} ORDER BY seq DESC LIMIT 1 OFFSET ?1",
    groups: "SELECT topic, party, error, count(*), min(processed_at), max(processed_at), min(seq)
         FROM (SELECT topic, {party} AS party, {error} AS error, processed_at, seq
               FROM {f}{by_finished} WHERE state = {state}{ended} AND seq >= ?1) AS newest
         GROUP BY topic, party, error",
    ahead: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {f}{by_work} WHERE state = {state} AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
};

pub(crate) const INBOX: InboxSql = InboxSql {
    insert: "INSERT INTO {t} ({new}, state) VALUES ({new_values}, 0) ON CONFLICT (source, message_id) DO NOTHING",
    accept: "INSERT INTO {t} ({new}, state) VALUES ({new_values}, 0)
         ON CONFLICT (source, message_id) DO UPDATE SET {accepted_excluded}, state = 0 WHERE {t}.state = 5",
    handled: "INSERT INTO {t} ({new}, state, last_attempt_at, claim_no, processed_at, processed_by, response)
         VALUES ({new_values}, 2, {@created_at}, 1, {@created_at}, {@owner}, {@response})",
    see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (source, message_id) DO NOTHING",
    touch: "UPDATE {t} SET last_seen_at = ?2, hash = coalesce(hash, ?3) WHERE seq = ?1",
    content: "UPDATE {t} SET {content} WHERE {key}",
    begin: "UPDATE {v} SET state = 6, attempts = attempts + 1, last_attempt_at = ?2
         WHERE seq = ?1 AND state IN (5, 6){returning}",
    count: "SELECT state, count(*) FROM {t} WHERE state IN (5, 6) GROUP BY state",
    size: "SELECT CASE WHEN n < 100000 THEN n
             ELSE max(n, (SELECT max(seq) FROM {t}) - (SELECT min(seq) FROM {t}) + 1) END
         FROM (SELECT count(*) AS n FROM (SELECT 1 FROM {t} LIMIT 100000))",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (source, message_id, handler) DO NOTHING",
    mark_find: "SELECT marked_at, topic FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = ?1 AND message_id = ?2 AND handler = ?3 AND marked_at = ?4",
    marks_purge: "DELETE FROM {t}_marks WHERE (source, message_id, handler) IN
             (SELECT source, message_id, handler FROM {t}_marks
              WHERE handler = ?1 AND marked_at < ?2 ORDER BY marked_at LIMIT ?3)",
    payloads_until: "SELECT max(at) FROM (
             SELECT at, sum(to_seq - from_seq + 1) OVER (ORDER BY at, from_seq) - (to_seq - from_seq + 1) AS earlier
             FROM (SELECT at, from_seq, to_seq FROM {t}_done WHERE at > ?1 AND at <= ?2 ORDER BY at LIMIT ?3) AS next
         ) AS counted WHERE earlier < ?3",
    payloads_drop: "UPDATE {t} SET payload = '', dropped_at = ?3 WHERE {large} AND seq IN (
             SELECT m.seq FROM {t}_done AS d CROSS JOIN {t} AS m
             WHERE d.at > ?1 AND d.at <= ?2 AND m.seq BETWEEN d.from_seq AND d.to_seq)",
};

pub(crate) const QUESTIONS: QuestionSql = QuestionSql {
    keys: "SELECT source, message_id FROM {t} WHERE message_id = ?1 OR source || '/' || message_id = ?1 ORDER BY seq",
    newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
         (SELECT max({no}) FROM {t}_failures),
         (SELECT max(processed_at) FROM {t} WHERE state = 2{ended}),
         (SELECT max(processed_at) FROM {t} WHERE state = 3{ended}),
         (SELECT max(processed_at) FROM {t} WHERE state = 4{ended}),
         (SELECT max(processed_at) FROM {t} WHERE state = 7{ended})",
    activity: "SELECT count(*), max(last_attempt_at),
             (SELECT max(processed_at) FROM {t} WHERE state = 2{ended}),
             (SELECT at FROM {t}_failures ORDER BY {no} DESC LIMIT 1),
             (SELECT max(maintained_at) FROM {s}postroom_schema WHERE outbox = ?3 AND inbox = ?4)
         FROM (SELECT last_attempt_at FROM {t} WHERE state = 1 AND visible_at > ?1 LIMIT ?2) AS held",
    ahead: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {f} WHERE state = 0 AND visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2)
             ORDER BY visible_at LIMIT ?3) AS line",
    arrived_rate: "SELECT count(*), min(at)
         FROM (SELECT created_at AS at FROM {t} ORDER BY seq DESC LIMIT ?3) AS newest WHERE at >= ?1 AND at <= ?2",
    done_rate: "SELECT count(*), min(at) FROM (
             SELECT processed_at AS at FROM {f} WHERE state = 2 AND processed_at >= ?1
             ORDER BY processed_at DESC LIMIT ?3) AS done
         WHERE at <= ?2",
    tally_ready: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {f} WHERE state = 0{waiting} ORDER BY visible_at LIMIT ?1) AS front
         GROUP BY topic, party",
    tally_dead: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {f} WHERE state = 3{ended} LIMIT ?1) AS front
         GROUP BY topic, party",
    last_failures: "SELECT f.at, m.topic, f.attempt, f.error, f.code
         FROM (SELECT {no} AS number, seq, at, attempt, error, code FROM {t}_failures
               ORDER BY {no} DESC LIMIT ?1) AS f
         LEFT JOIN {t} AS m ON m.seq = f.seq ORDER BY f.number DESC",
    arrived: "SELECT seq, {told}, created_at, last_error, attempts, {bytes}, {shown} FROM {v}
         WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    arrived_rows: "SELECT seq, {told}, created_at, last_error, attempts, {bytes}, {shown} FROM {v}
         WHERE seq{by_number}",
    failed: "SELECT f.{no}, {told}, f.at, f.error, f.attempt, {bytes}, {shown} FROM {failures}
         WHERE f.{no} > ?1 ORDER BY f.{no} LIMIT ?2",
    failed_rows: "SELECT f.{no}, {told}, f.at, f.error, f.attempt, {bytes}, {shown} FROM {failures}
         WHERE f.{no}{by_number}",
    finished: "SELECT seq, {told}, processed_at, last_error, attempts, {bytes}, {shown} FROM {f}
         WHERE state = {state} AND processed_at >= ?1 AND (processed_at > ?1 OR seq > ?2)
         ORDER BY processed_at, seq LIMIT ?3",
    count_delivered: "SELECT count(*) FROM {f} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2",
    delivered_up_to: "SELECT max(seq) FROM (
             SELECT seq FROM {f} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2 AND seq > ?3
             ORDER BY seq LIMIT ?4) AS page",
    lanes_at_ends: "SELECT * FROM (SELECT lane FROM {t}_lane ORDER BY seq LIMIT ?1) AS oldest
         UNION ALL
         SELECT * FROM (SELECT lane FROM {t}_lane ORDER BY seq DESC LIMIT ?1) AS newest",
    lanes_of_dead: "SELECT lane, at, seq FROM (
             SELECT d.seq, d.at, (SELECT l.lane FROM {t}_lane AS l WHERE l.seq = d.seq AND l.place > 1) AS lane
             FROM (SELECT seq, at FROM {t}_trouble WHERE state > 0 AND state = 3
                   ORDER BY at, seq LIMIT ?1) AS d) AS dead
         WHERE lane IS NOT NULL",
    lane_depth: "SELECT (SELECT count(*) FROM (SELECT 1 FROM {t}_lane WHERE lane = ?1 LIMIT ?2) AS counted),
             (SELECT seq FROM {t}_lane WHERE lane = ?1 ORDER BY no LIMIT 1)",
    lane_row: "SELECT lane, no FROM {t}_lane WHERE seq = ?1",
    lane_ahead: "SELECT count(*) FROM (SELECT 1 FROM {t}_lane WHERE lane = ?1 AND no < ?3 LIMIT ?2) AS before_it",
    lane_first: "SELECT seq, {told}, state, created_at, visible_at, attempts FROM {v} WHERE seq{by_number}",
};
