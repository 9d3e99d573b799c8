//! PostgreSQL. A row that is read to be written is locked on the way; rows that others hold are passed over. The CTE of
//! a claim is materialized: as a subquery a nested loop would run it again for each row, and claim them all.

use crate::sql::dialect::{Batch, Dialect, Fence, Identity, QueueSql, UNUSED};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::text::Places;

#[macro_use]
mod words;

mod questions;
mod session;

pub(crate) use session::{
    BEGIN, BEGIN_HANDLER, BEGIN_PLAIN, DEPLOY_LOCK, FOR_VERBS, HAS_SETTINGS, HELLO, NOTIFY, POOLED_BEGIN_HANDLER,
    ROLL_BACK, SEAL,
};

pub(crate) const POSTGRES: Dialect = Dialect {
    places: Places::Numbered,
    batch: Batch::Arrays,
    schema: include_str!("schema/0001_init.sql"),
    schema_each: UNUSED,
    create_schema: "CREATE SCHEMA IF NOT EXISTS {schema};\n\n",
    schema_drop: include_str!("schema/0001_drop.sql"),
    schema_version: 1,
    schema_read: "SELECT version FROM {s}postroom_schema WHERE outbox = $1 AND inbox = $2",
    maintenance_take: "UPDATE {s}postroom_schema SET maintained_at = $3
         WHERE outbox = $1 AND inbox = $2 AND (maintained_at <= $4 OR maintained_at > $5)",
    // `state + 0`: with `state = 1` the planner may walk the index of leased rows instead of using the primary key.
    fence: Fence {
        one: "state + 0 = 1 AND owner = $2::uuid AND claim_no = $3::bigint",
        each: "state + 0 = 1 AND owner = a.o AND claim_no = a.c",
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
        columns: "id, message_id, destination, NULL::bigint",
        key: "id = $1",
        party: "destination",
        here: "destination IS NULL",
        destination: "destination",
    },
    inbox: Identity {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = $1 AND message_id = $2",
        party: "source",
        here: "1 = 1",
        destination: "''",
    },
    // The conflict's column is not named: that would take the right to read it.
    outbox_insert: "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::bigint, $13)
         ON CONFLICT DO NOTHING",
    outbox_insert_batch: concat!(
        "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         SELECT a.id, a.message_id, a.kind, a.topic, a.payload, a.destination, a.headers, a.correlation_id,
                a.visible_at, a.due_at, a.expires_at, a.max_attempts, $13
         FROM (SELECT ",
        durable!(),
        " OFFSET 0) AS once,
              unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
              AS a (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
                    expires_at, max_attempts)
         ON CONFLICT (id) DO NOTHING RETURNING id"
    ),
    inbox_insert: "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11::bigint, $12, $12, $13)
         ON CONFLICT (source, message_id) DO NOTHING",
    inbox_accept: concat!(
        "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::text, $8::text, 0, $9::bigint,
                $10::bigint, $11::bigint, $12::bigint, $12::bigint, $13::bigint
         WHERE ",
        durable!(),
        " IS NOT NULL
         ON CONFLICT (source, message_id) DO UPDATE
         SET kind = excluded.kind, topic = excluded.topic, payload = excluded.payload, hash = excluded.hash,
             headers = excluded.headers, correlation_id = excluded.correlation_id, state = 0,
             visible_at = excluded.visible_at, due_at = excluded.due_at, max_attempts = excluded.max_attempts,
             last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at
         WHERE {t}.state = 5"
    ),
    inbox_accept_seen: UNUSED,
    // A twin's transaction holds the lock: nobody waits for it. Locks are the database's, so the key tells our table
    // from those of other tenants; the length of the source tells a/b and c from a and b/c.
    inbox_arrive: concat!(
        "WITH twin AS MATERIALIZED (
             SELECT pg_try_advisory_xact_lock(hashtextextended(
                 length($1::text) || '/' || $1::text || '/' || $2::text, '{t}'::regclass::oid::bigint)) AS free
         ), arrived AS (
             INSERT INTO {t}
                 (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
                  max_attempts, created_at, last_seen_at, expires_at, last_attempt_at, locked_until, owner, claim_no)
             SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::text, $8::text, 1, $9::bigint,
                    $10::bigint, $11::bigint, $12::bigint, $12::bigint, $13::bigint, $12::bigint, $9::bigint,
                    $14::uuid, 1
             FROM twin WHERE free AND ",
        durable!(),
        " IS NOT NULL
             ON CONFLICT (source, message_id) DO NOTHING RETURNING seq
         ) SELECT free::int, (SELECT seq FROM arrived) FROM twin"
    ),
    inbox_arrive_look: UNUSED,
    inbox_arrive_seq: UNUSED,
    inbox_handled: UNUSED,
    inbox_see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at) VALUES ($1, $2, $3, $4, $4)
         ON CONFLICT (source, message_id) DO NOTHING",
    inbox_touch: "UPDATE {t} SET last_seen_at = $2, hash = coalesce(hash, $3) WHERE seq = $1",
    inbox_content: "UPDATE {t}
         SET kind = $2, topic = $3, payload = $4, hash = $5, headers = $6, correlation_id = $7, last_seen_at = $8,
             max_attempts = $9::bigint
         WHERE seq = $1",
    inbox_begin: "UPDATE {t} SET state = 6, attempts = attempts + 1, last_attempt_at = $2
         WHERE seq = $1 AND state IN (5, 6)",
    inbox_count: "SELECT state, count(*) FROM {t} WHERE state IN (5, 6) GROUP BY state",
    inbox_size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n,
             (SELECT reltuples::bigint FROM pg_class WHERE oid = '{t}'::regclass)) END
         FROM (SELECT count(*) AS n FROM (SELECT 1 FROM {t} LIMIT 100000) AS seen) AS few",
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = $1
         UNION ALL SELECT {record} FROM {t} WHERE message_id = $1 AND id <> $1 ORDER BY 1",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (source, message_id, handler) DO NOTHING",
    mark_find: "SELECT marked_at, topic FROM {t}_marks WHERE source = $1 AND message_id = $2 AND handler = $3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = $1 AND message_id = $2 AND handler = $3 AND marked_at = $4",
    marks_purge: "DELETE FROM {t}_marks WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM {t}_marks WHERE handler = $1 AND marked_at < $2
             ORDER BY marked_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
    idle_poll: concat!(
        "SELECT (EXISTS (SELECT 1 FROM {outbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN $2 AND $1)
                OR EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND visible_at BETWEEN $4 AND $1))::int,
                (EXISTS (SELECT 1 FROM {inbox} WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN $3 AND $1)
                OR EXISTS (SELECT 1 FROM {inbox} WHERE state = 1 AND visible_at BETWEEN $5 AND $1))::int, ",
        read_only!()
    ),
};

const QUEUE: QueueSql = QueueSql {
    // The first that is ready, the first lease that ends, and the first message that is past its time.
    claim_look: "SELECT
         (SELECT visible_at FROM {t} WHERE state = 0 AND crashes = 0 AND visible_at >= $2
          ORDER BY visible_at, seq LIMIT 1),
         (SELECT visible_at FROM {t} WHERE state = 1 AND visible_at >= $3 ORDER BY visible_at, seq LIMIT 1),
         (SELECT expires_at FROM {t} WHERE state = 0 AND expires_at BETWEEN $4 AND $1 ORDER BY expires_at LIMIT 1)",
    claim_select: UNUSED,
    claim_line: claim!(" AND crashes = 0"),
    claim_one: UNUSED,
    claim_next: UNUSED,
    topics_select: UNUSED,
    topics_line: claim!(concat!(" AND crashes = 0", among!("$8", "$9", "$10", "$11"))),
    topics_next: concat!(
        "SELECT min(at) FROM (
             (SELECT visible_at AS at FROM {t} WHERE state = 0 AND crashes = 0 AND visible_at >= $5",
        among!("$1", "$2", "$3", "$4"),
        " ORDER BY visible_at, seq LIMIT 1)
             UNION ALL (SELECT visible_at FROM {t} WHERE state = 1 ORDER BY visible_at, seq LIMIT 1)) AS waiting"
    ),
    suspects_select: UNUSED,
    suspects_line: claim!(concat!(" AND crashes > 0", among!("$8", "$9", "$10", "$11"))),
    suspects_next: concat!(
        "SELECT visible_at FROM {t} WHERE state = 0 AND crashes > 0",
        among!("$1", "$2", "$3", "$4"),
        " ORDER BY visible_at, seq LIMIT 1"
    ),
    ack: concat!(
        "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = $4::bigint,
             processed_by = $2::uuid, response = coalesce($5::text, response)
         WHERE seq = $1::bigint AND {fence} AND ",
        durable!(),
        " IS NOT NULL"
    ),
    ack_batch: concat!(
        "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = $5,
             processed_by = a.o, response = coalesce(a.r, response)
         FROM (SELECT ",
        durable!(),
        " OFFSET 0) AS once, unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[]) AS a (n, o, c, r)
         WHERE seq = ANY ($1::bigint[]) AND seq = a.n AND {fence_each}"
    ),
    extend: UNUSED,
    extend_batch: "UPDATE {t} SET locked_until = $4, visible_at = $4
         FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) AS a (n, o, c)
         WHERE seq = ANY ($1::bigint[]) AND seq = a.n AND state + 0 = 1 AND owner = a.o AND claim_no = a.c
         RETURNING seq, claim_no",
    held: "SELECT 1 FROM {t} WHERE seq = $1 AND {fence}",
    load_lease: "SELECT {bare} FROM {t} WHERE seq = $1 AND {fence} FOR UPDATE",
    load_leases: "SELECT {bare} FROM {t}, unnest($1::bigint[], $2::uuid[], $3::bigint[]) AS a (n, o, c)
         WHERE seq = ANY ($1::bigint[]) AND seq = a.n AND {fence_each} ORDER BY seq FOR UPDATE OF {n}",
    load_claimed: "SELECT {record} FROM {t} WHERE state = 1 AND visible_at = $1 AND owner = $2::uuid ORDER BY seq",
    load_over: "SELECT {bare} FROM {t} WHERE state = 1 AND visible_at <= $1
         ORDER BY visible_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED",
    load_expired: "SELECT {bare} FROM {t} WHERE state = 0 AND expires_at <= $1
         ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    load_key: "SELECT {record} FROM {t} WHERE {key} FOR UPDATE",
    find_key: "SELECT {record} FROM {t} WHERE {key}",
    list: "SELECT {record} FROM {t}
         WHERE ($1 IS NULL OR state = $1) AND ($2 IS NULL OR topic = $2) AND ($3 IS NULL OR {party} = $3)
           AND ($4 IS NULL OR processed_at >= $4) AND seq > $5 AND seq <= $7
         ORDER BY seq LIMIT $6",
    list_done: list_in!("2"),
    list_dead: list_in!("3"),
    list_expired: list_in!("4"),
    list_dismissed: list_in!("7"),
    list_rows: "SELECT {record} FROM {t} WHERE seq = ANY ($1::bigint[])",
    brief_done: brief_in!("2"),
    brief_dead: brief_in!("3"),
    brief_expired: brief_in!("4"),
    brief_dismissed: brief_in!("7"),
    brief_rows: "SELECT {brief} FROM {t} WHERE seq = ANY ($1::bigint[])",
    put_back: "UPDATE {t}
         SET state = $4, visible_at = $5, next_attempt_at = $6, attempts = $7, crashes = $8, processed_at = $9,
             expires_at = $10, processed_by = NULL, response = NULL
         WHERE seq = $1 AND claim_no = $2 AND state + 0 = $3",
    dismiss: "UPDATE {t}
         SET state = 7, visible_at = NULL, processed_at = $4, dismissed_by = $5, dismissed_why = $6
         WHERE seq = $1 AND claim_no = $2 AND state + 0 = $3",
    expire_dead: "UPDATE {t} SET state = 4, processed_at = $1 WHERE seq = ANY (ARRAY(
             SELECT seq FROM {t} WHERE state = 3 AND expires_at <= $1
             ORDER BY expires_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED))",
    nth_newest_dead: nth_newest_in!("3"),
    nth_newest_expired: nth_newest_in!("4"),
    groups_dead: groups_in!("3"),
    groups_expired: groups_in!("4"),
    count_overdue: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 0 AND expires_at <= $1 LIMIT $2) AS late",
    count_purgeable: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 2 AND processed_at < $1 LIMIT $2) AS old",
    save: "UPDATE {t}
         SET state = $3, visible_at = $4, due_at = $5, next_attempt_at = $6, attempts = $7, crashes = $8,
             claim_no = $9, owner = $10, locked_until = $11, last_error = $12, processed_at = $13,
             processed_by = $14, expires_at = $15, response = $16
         WHERE seq = $1 AND claim_no = $2",
    save_batch: "UPDATE {t}
         SET state = a.v3, visible_at = a.v4, due_at = a.v5, next_attempt_at = a.v6, attempts = a.v7, crashes = a.v8,
             claim_no = a.v9, owner = a.v10, locked_until = a.v11, last_error = a.v12, processed_at = a.v13,
             processed_by = a.v14, expires_at = a.v15, response = a.v16
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::uuid[], $11::bigint[], $12::text[], $13::bigint[], $14::uuid[],
                     $15::bigint[], $16::text[])
              AS a (v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15, v16)
         WHERE seq = ANY ($1::bigint[]) AND seq = a.v1 AND claim_no = a.v2",
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         VALUES ($1, $2, $3, $4, $5, $6)",
    failure_add_batch: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::text[])",
    failure_trim_batch: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
             SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
             FROM {t}_failures WHERE seq = ANY ($2::bigint[])) AS ranked WHERE ranked.place > $1::bigint)",
    failure_trim: "DELETE FROM {t}_failures
         WHERE seq = $1 AND no NOT IN (SELECT no FROM {t}_failures WHERE seq = $1 ORDER BY no DESC LIMIT $2)",
    failure_list: "SELECT at, attempt, worker, error, code FROM {t}_failures WHERE seq = $1 ORDER BY no",
    hold_remove: "DELETE FROM {t}_holds
         WHERE kind = $1 AND name = $2 AND owner = $3 OR tried_at < $4",
    hold_add: "INSERT INTO {t}_holds (kind, name, owner, since, tried_at, code, why)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    hold_list: "SELECT kind, name, since, tried_at, code, why FROM {t}_holds ORDER BY kind, name",
    audit_more: "UPDATE {t}_audit SET messages = messages + $3 WHERE act = $1 AND what = $2",
    audit_add: "INSERT INTO {t}_audit (act, what, messages, at, who, why, chosen)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    audit_list: "SELECT at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC LIMIT $1",
    count_to: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 0 AND {destination} = $1 AND NOT ({here}) LIMIT $2) AS waiting",
    count_of: "SELECT count(*) FROM (SELECT 1 FROM {t} WHERE state = 0 AND {here} AND topic = $1 LIMIT $2) AS waiting",
    count: "SELECT 0, count(*) FROM {t} WHERE state = 0 UNION ALL SELECT 1, count(*) FROM {t} WHERE state = 1
         UNION ALL SELECT 2, count(*) FROM {t} WHERE state = 2 UNION ALL SELECT 3, count(*) FROM {t} WHERE state = 3
         UNION ALL SELECT 4, count(*) FROM {t} WHERE state = 4 UNION ALL SELECT 7, count(*) FROM {t} WHERE state = 7",
    count_waiting: "SELECT (SELECT count(*) FROM {t} WHERE state = 0) + (SELECT count(*) FROM {t} WHERE state = 1)",
    oldest: "SELECT created_at, visible_at FROM {t} WHERE state = 0 ORDER BY visible_at, seq LIMIT 1",
    ahead_leased: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} WHERE state = 1 AND visible_at >= $1 AND (visible_at > $1 OR seq > $2)
         ORDER BY visible_at, seq LIMIT $3",
    ahead_ready: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t} WHERE state = 0 AND visible_at >= $1 AND (visible_at > $1 OR seq > $2)
         ORDER BY visible_at, seq LIMIT $3",
    ahead_set: "UPDATE {t}
         SET visible_at = $4, next_attempt_at = $5, locked_until = $6, last_attempt_at = $7,
             created_at = $8
         WHERE seq = $1 AND claim_no = $2 AND state = $3 AND visible_at = $9",
};

const PURGE: PurgeTexts = PurgeTexts {
    failures: "DELETE FROM {t}_failures WHERE seq = ANY (ARRAY(
             SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT $2 FOR UPDATE SKIP LOCKED))",
    rows: "DELETE FROM {t} WHERE seq = ANY (ARRAY(
             SELECT seq FROM {t} WHERE {old} ORDER BY {age}, seq LIMIT $2 FOR UPDATE SKIP LOCKED))",
    ended: Old { rows: "state = {state} AND processed_at < $1", age: "processed_at" },
    seen: Old { rows: "state = {state} AND last_seen_at < $1", age: "last_seen_at" },
};

/// For a test only: a settle that does not ask who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence =
    Fence { one: "($2::uuid IS NOT NULL OR $3::bigint IS NOT NULL)", each: "a.o IS NOT NULL" };
