//! PostgreSQL. A row that is read to be written is locked at the same time; rows that others have locked are skipped.
//! The CTE of a claim is materialized: as a subquery, a nested loop would run it again for each row and claim them all.

use crate::sql::dialect::{Dialect, Fence, Identity, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, LaneLook, Lines, ManySql};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::questions::QuestionSql;
use crate::sql::shared;
use crate::sql::text::Places;
use crate::sql::unique::UniqueSql;

#[macro_use]
mod words;

mod lanes;
mod session;
mod steps;

pub(crate) use session::{
    BEGIN, BEGIN_HANDLER, BEGIN_PLAIN, DEPLOY_LOCK, DEPLOY_LOCK_OPEN, DEPLOY_MARK, DEPLOY_RETURN, DEPLOY_UNLOCK,
    FOR_VERBS, HAS_SETTINGS, HELLO, NOTIFY, POOLED_BEGIN_HANDLER, ROLL_BACK, SEAL,
};
use steps::STEPS;
use words::TAKE;

pub(crate) const POSTGRES: Dialect = Dialect {
    places: Places::Numbered("$"),
    casts: true,
    words: &[
        ("v", "{t}_state"),
        ("f", "{t}_by_state"),
        ("by_number", " = ANY (?1::bigint[])"),
        // Which messages those are is decided where they are moved.
        ("lock", ""),
        ("of_key", " FOR UPDATE OF u SKIP LOCKED"),
        ("durable", durable!()),
        // OFFSET 0 keeps the planner from reading a table as a whole that it takes for empty.
        ("beside", "{troubled}{beside_ended}"),
        (
            "troubled",
            "\n    LEFT JOIN LATERAL (SELECT * FROM {t}_trouble AS x WHERE x.seq = m.seq OFFSET 0) AS t ON true",
        ),
        (
            "beside_ended",
            "\n    LEFT JOIN LATERAL (SELECT * FROM {t}_answer AS x WHERE x.seq = m.seq OFFSET 0) AS a ON true{seen}",
        ),
        (
            "holds",
            "EXISTS (SELECT 1 FROM {t}_held AS h
                     WHERE h.seq BETWEEN e.first_seq AND e.last_seq AND h.lease = e.no)",
        ),
        // The messages `h` that are held under a lease `e`.
        (
            "under_it",
            "\n    CROSS JOIN LATERAL (SELECT * FROM {t}_held AS x
                 WHERE x.seq BETWEEN e.first_seq AND e.last_seq AND x.lease = e.no OFFSET 0) AS h",
        ),
        ("place", "CASE WHEN {here} THEN '=' || topic ELSE '>' || {destination} END"),
        // The settings of tables whose rows come and go: vacuum runs early, and takes no lock to shorten them.
        (
            "hot",
            "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
             autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false",
        ),
        // Whether a claim covers a place: by the topic or by the destination. Each is a list of names between line
        // breaks, with a flag that says whether it means only these or all but these.
        (
            "among",
            "(place = ANY (ARRAY(
                 SELECT '=' || n FROM unnest(string_to_array(?9::text, chr(10))) AS n WHERE n <> ''
                 UNION ALL SELECT '>' || n FROM unnest(string_to_array(?11::text, chr(10))) AS n WHERE n <> '')))::int
                 = CASE WHEN place < '>' THEN ?10::bigint ELSE ?12::bigint END",
        ),
        // Messages that wait for their turn.
        ("count_in_lanes", "(SELECT count(*) FROM {t}_lane WHERE place = 0)"),
        ("count_done", "coalesce(sum(to_seq - from_seq + 1), 0)::bigint"),
        ("last_done", "greatest((SELECT max(at) FROM {t}_done), (SELECT max(at) FROM {t}_trouble WHERE state = 2))"),
    ],
    schema: include_str!("schema/0001_init.sql"),
    schema_each: Some(include_str!("schema/0001_each.sql")),
    create_schema: Some("CREATE SCHEMA IF NOT EXISTS {schema};\n\n"),
    secure: Some(include_str!("schema/0001_secure.sql")),
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 2,
    steps: &STEPS,
    fence: Fence {
        one: "owner = ?2::uuid AND claim_no = ?3::bigint",
        // IS TRUE keeps the planner from making a join of it, which would compare every row with every other.
        each: Some(
            "h.seq = ANY (?1::bigint[]) AND ((h.seq, h.owner, h.claim_no) IN (
                 SELECT * FROM unnest(?1::bigint[], ?2::uuid[], ?3::bigint[]))) IS TRUE",
        ),
    },
    outbox: Identity::outbox("id, message_id, destination, NULL::bigint"),
    inbox: Identity {
        seen: "\n    LEFT JOIN LATERAL (SELECT * FROM {t}_seen AS x WHERE x.seq = m.seq OFFSET 0) AS s ON true",
        ..Identity::INBOX
    },
    insert_many: InsertMany::Answered {
        sql: "INSERT INTO {t} ({new})
             SELECT a.* FROM (SELECT {durable} OFFSET 0) AS once, unnest({new_arrays}) AS a ({new})
             ON CONFLICT (id) DO NOTHING RETURNING id",
        all_new: Some(
            "INSERT INTO {t} ({new})
             SELECT a.* FROM (SELECT {durable} OFFSET 0) AS once, unnest({new_arrays}) AS a ({new})",
        ),
        all_told: Some(
            "INSERT INTO {t} ({new})
             SELECT a.* FROM (SELECT {durable}, pg_notify({behind|1}, {behind|2}) OFFSET 0) AS once,
                 unnest({new_arrays}) AS a ({new})",
        ),
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
             (SELECT visible_at FROM {t}_line WHERE crashes = 0 AND visible_at >= ?2 ORDER BY visible_at, seq LIMIT 1),
             (SELECT until FROM {t}_lease WHERE until >= ?3 ORDER BY until LIMIT 1),
             least((SELECT expires_at FROM {t}_line WHERE expires_at BETWEEN ?4 AND ?1 ORDER BY expires_at LIMIT 1),
                   (SELECT expires_at FROM {t}_lane WHERE expires_at BETWEEN ?4 AND ?1 AND place = 0
                    ORDER BY expires_at LIMIT 1)),
             (EXISTS (SELECT 1 FROM {t}_lane_notes WHERE id > 0))::int::bigint",
        take_or_look: Some(claim!(
            "crashes = 0",
            ", NULL::bigint, NULL::bigint, NULL::bigint",
            " UNION ALL SELECT {no_message},
                 (SELECT visible_at FROM {t}_line WHERE crashes = 0 AND visible_at >= ?10
                  ORDER BY visible_at, seq LIMIT 1),
                 (SELECT until FROM {t}_lease WHERE until >= ?11 ORDER BY until LIMIT 1),
                 (SELECT expires_at FROM {t}_line WHERE expires_at BETWEEN ?12 AND ?9 ORDER BY expires_at LIMIT 1),
                 (EXISTS (SELECT 1 FROM {t}_lane_notes WHERE id > 0))::int::bigint
             WHERE NOT EXISTS (SELECT 1 FROM taken)"
        )),
    },
    many: Some(ManySql {
        ack_many: "WITH once AS MATERIALIZED (
                 SELECT {durable}
             ), gone AS (
                 DELETE FROM {t}_held AS h USING once WHERE {fence_each} RETURNING h.seq, h.lease, h.owner, h.claim_no
             ), numbered AS (
                 SELECT gone.*, seq - row_number() OVER (PARTITION BY lease, claim_no, owner ORDER BY seq) AS run
                 FROM gone
             ), done AS (
                 INSERT INTO {t}_done (from_seq, to_seq, at, claimed_at, by, no)
                 SELECT min(seq), max(seq), ?5::bigint, (SELECT e.at FROM {t}_lease AS e WHERE e.no = lease), owner,
                        claim_no
                 FROM numbered GROUP BY lease, claim_no, owner, run
             ), answered AS (
                 INSERT INTO {t}_answer (seq, response)
                 SELECT a.n, a.r FROM unnest(?1::bigint[], ?2::uuid[], ?3::bigint[], ?4::text[]) AS a (n, o, c, r)
                 WHERE a.r IS NOT NULL
                   AND ((a.n, a.o, a.c) IN (SELECT gone.seq, gone.owner, gone.claim_no FROM gone)) IS TRUE
                 ON CONFLICT (seq) DO UPDATE SET response = excluded.response
             ), emptied AS (
                 DELETE FROM {t}_lease AS e USING (SELECT lease, count(*) AS n FROM gone GROUP BY lease) AS g
                 WHERE e.no = g.lease AND e.n = g.n
             ) SELECT 1 FROM gone",
        save_many: "UPDATE {v} SET {saved_each} FROM unnest({saved_arrays}) AS a ({saved_names})
             WHERE seq = ANY (?1::bigint[]) AND seq = a.v1 AND claim_no = a.v2 AND state = {was_each}",
        load_leases: "WITH mine AS MATERIALIZED (
                 SELECT h.seq FROM {t}_held AS h WHERE {fence_each} ORDER BY h.seq FOR UPDATE
             ) SELECT {bare} FROM {v} WHERE seq = ANY (ARRAY(SELECT mine.seq FROM mine)) ORDER BY seq",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             SELECT * FROM unnest(?1::bigint[], ?2::bigint[], ?3::bigint[], ?4::uuid[], ?5::text[], ?6::text[])",
        failure_trim_many: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
                 SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
                 FROM {t}_failures WHERE seq = ANY (?1::bigint[])) AS ranked WHERE ranked.place > ?2::bigint)",
    }),
    ack_ranges: None,
    // A lease is renewed as a whole if nothing else is held under it; otherwise the messages get one of their own.
    extend: Extend::Answered(
        "WITH asked AS MATERIALIZED (
             SELECT h.seq, h.claim_no, h.lease FROM {t}_held AS h WHERE {fence_each} ORDER BY h.seq FOR UPDATE
         ), parts AS MATERIALIZED (
             SELECT e.no, e.at, g.first_seq, g.last_seq, g.n, g.n = (
                     SELECT count(*) FROM {t}_held AS h
                     WHERE h.seq BETWEEN e.first_seq AND e.last_seq AND h.lease = e.no) AS is_whole
             FROM (SELECT lease, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS n
                   FROM asked GROUP BY lease) AS g
                 JOIN {t}_lease AS e ON e.no = g.lease
         ), renewed AS (
             UPDATE {t}_lease SET until = ?4 WHERE no = ANY (ARRAY(SELECT parts.no FROM parts WHERE is_whole))
         ), cut AS (
             INSERT INTO {t}_lease (at, until, first_seq, last_seq, n)
             SELECT at, ?4, first_seq, last_seq, n FROM parts WHERE NOT is_whole RETURNING no, first_seq
         ), moved AS (
             UPDATE {t}_held AS h SET lease = cut.no
             FROM asked JOIN parts ON parts.no = asked.lease JOIN cut ON cut.first_seq = parts.first_seq
             WHERE h.seq = ANY (?1::bigint[]) AND h.seq = asked.seq
         ) SELECT seq, claim_no, (EXISTS (SELECT 1 FROM parts WHERE parts.no = asked.lease))::int FROM asked",
    ),
    runs: None,
    lanes: Some(LaneLook::Anywhere(lanes::LOOK)),
    ruled_lanes: Some(lanes::RULED),
    // A message may move between reading and writing it: only what is settled is locked.
    checks_saves: true,
    queue: QueueSql {
        topics_next: "SELECT min(at) FROM (
                 SELECT * FROM (SELECT visible_at AS at FROM {t}_line
                                WHERE crashes = 0 AND visible_at >= ?5 AND {among}
                                ORDER BY visible_at, seq LIMIT 1) AS front
                 UNION ALL SELECT min(until) FROM {t}_lease WHERE until >= ?13) AS waiting",
        suspects_next: "SELECT visible_at FROM {t}_line WHERE crashes > 0 AND {among} ORDER BY visible_at, seq LIMIT 1",
        ack: "WITH gone AS (
                 DELETE FROM {t}_held WHERE seq = ?1::bigint AND {fence} AND {durable} IS NOT NULL
                 RETURNING seq, lease, claim_no
             ), answered AS (
                 INSERT INTO {t}_answer (seq, response) SELECT seq, ?4::text FROM gone WHERE ?4::text IS NOT NULL
                 ON CONFLICT (seq) DO UPDATE SET response = excluded.response
             ), emptied AS (
                 DELETE FROM {t}_lease AS e USING gone
                 WHERE e.no = gone.lease AND e.n = 1 AND current_setting('transaction_isolation') = 'read committed'
             ) INSERT INTO {t}_done (from_seq, to_seq, at, claimed_at, by, no)
             SELECT seq, seq, ?5::bigint, (SELECT e.at FROM {t}_lease AS e WHERE e.no = gone.lease), ?2::uuid, claim_no
             FROM gone",
        held: "SELECT 1 FROM {t}_held WHERE seq = ?1::bigint AND {fence}",
        load_lease: "WITH mine AS MATERIALIZED (
                 SELECT seq FROM {t}_held WHERE seq = ?1::bigint AND {fence} FOR UPDATE
             ) SELECT {bare} FROM {v} WHERE seq = ANY (ARRAY(SELECT mine.seq FROM mine))",
        load_claimed: "SELECT {record} FROM {v} WHERE seq = ANY (ARRAY(
                 SELECT h.seq FROM {t}_lease AS e{under_it} WHERE e.until = ?1 AND h.owner = ?2)) ORDER BY seq",
        // Leases that hold nothing are deleted on the way: nothing is ever added to one.
        load_over: "WITH emptied AS (
                 DELETE FROM {t}_lease WHERE no = ANY (ARRAY(
                     SELECT e.no FROM {t}_lease AS e WHERE e.until <= ?1 AND NOT {holds}
                     ORDER BY e.until LIMIT 5000 FOR UPDATE SKIP LOCKED))
             ), over AS MATERIALIZED (
                 SELECT e.no, e.first_seq, e.last_seq FROM {t}_lease AS e WHERE e.until <= ?1 AND {holds}
                 ORDER BY e.until LIMIT ?2 FOR UPDATE SKIP LOCKED
             ), mine AS MATERIALIZED (
                 SELECT h.seq FROM over JOIN {t}_held AS h
                     ON h.seq BETWEEN over.first_seq AND over.last_seq AND h.lease = over.no
                 LIMIT ?2 FOR UPDATE OF h SKIP LOCKED
             ) SELECT {bare} FROM {v} WHERE seq = ANY (ARRAY(SELECT mine.seq FROM mine)) ORDER BY visible_at, seq",
        load_expired: "WITH mine AS MATERIALIZED (
                 SELECT seq FROM {t}_line WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED
             ), waiting AS MATERIALIZED (
                 SELECT seq FROM {t}_lane WHERE expires_at <= ?1 AND place = 0
                 ORDER BY expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED
             ) SELECT {bare} FROM {v}
             WHERE seq = ANY (ARRAY(SELECT mine.seq FROM mine UNION ALL SELECT waiting.seq FROM waiting LIMIT ?2))
             ORDER BY expires_at, seq",
        save: "UPDATE {v} SET {saved} WHERE seq = ?1 AND claim_no = ?2 AND state = {was}",
        expire_dead: "UPDATE {v} SET state = 4, processed_at = ?1 WHERE seq = ANY (ARRAY(
                 SELECT seq FROM {t}_trouble WHERE state = 3 AND expires_at <= ?1
                 ORDER BY expires_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED))",
        count_overdue: "SELECT count(*) FROM (
                 SELECT 1 FROM {t}_line WHERE expires_at <= ?1
                 UNION ALL SELECT 1 FROM {t}_lane WHERE expires_at <= ?1 AND place = 0 LIMIT ?2) AS late",
        count_purgeable: "SELECT least(?2, (SELECT {count_done} FROM {t}_done WHERE at < ?1)
                 + (SELECT count(*) FROM {t}_trouble WHERE state = 2 AND at < ?1))",
        count: "SELECT 0, count(*) + {count_in_lanes} FROM {t}_line
             UNION ALL SELECT 1, count(*) FROM {t}_held
             UNION ALL SELECT 2, {count_done} FROM {t}_done
             UNION ALL
             SELECT state, count(*) FROM {t}_trouble WHERE state > 0 AND state IN (2, 3, 4, 7) GROUP BY state",
        count_waiting: "SELECT (SELECT count(*) FROM {t}_line) + {count_in_lanes} + (SELECT count(*) FROM {t}_held)",
        // In lanes, the one that was written first: they are not in the order of their times.
        oldest: "SELECT m.created_at, w.at FROM (
                 SELECT * FROM (SELECT visible_at AS at, seq FROM {t}_line ORDER BY visible_at, seq LIMIT 1) AS l
                 UNION ALL
                 SELECT coalesce(t.visible_at, x.visible_at), l.seq
                 FROM (SELECT seq FROM {t}_lane WHERE place = 0 ORDER BY seq LIMIT 1) AS l
                     CROSS JOIN LATERAL (SELECT visible_at FROM {t} AS y WHERE y.seq = l.seq OFFSET 0) AS x
                     LEFT JOIN LATERAL (SELECT visible_at FROM {t}_trouble AS y WHERE y.seq = l.seq OFFSET 0) AS t
                         ON true) AS w
                 CROSS JOIN LATERAL (SELECT created_at FROM {t} AS y WHERE y.seq = w.seq OFFSET 0) AS m
             ORDER BY w.at, w.seq LIMIT 1",
        // A table with many messages is only counted: looking at each would take minutes.
        misplaced: "SELECT CASE WHEN (SELECT reltuples FROM pg_class WHERE oid = '{t}'::regclass) < 1000000
                 THEN (SELECT count(*) FROM (SELECT 1 FROM {t}_misplaced LIMIT 1000) AS wrong)
                 ELSE least(1000, abs((SELECT count(*) FROM {t}) - (SELECT count(*) FROM {t}_line)
                     - {count_in_lanes} - (SELECT count(*) FROM {t}_held) - (SELECT {count_done} FROM {t}_done)
                     - (SELECT count(*) FROM {t}_trouble WHERE state > 0))) END",
        ..shared::QUEUE
    },
    in_state: shared::IN_STATE,
    purge: PurgeTexts {
        rows: "DELETE FROM {t} WHERE seq = ANY (ARRAY({old}))",
        reclaim: None,
        // A run may have more messages than are deleted at once. They come in the order of the runs.
        ended: Old {
            rows: "SELECT old.seq FROM (
                     (SELECT m.seq, d.at FROM (SELECT from_seq, to_seq, at FROM {t}_done
                                               WHERE {state} = 2 AND at < ?1
                                               ORDER BY at LIMIT ?2 FOR UPDATE SKIP LOCKED) AS d
                          CROSS JOIN LATERAL (
                              SELECT seq FROM {t} WHERE seq BETWEEN d.from_seq AND d.to_seq OFFSET 0) AS m LIMIT ?2)
                     UNION ALL
                     SELECT * FROM (SELECT t.seq, t.at FROM {t}_trouble AS t JOIN {t} AS m ON m.seq = t.seq
                     WHERE t.state > 0 AND t.state = {state} AND t.at < ?1
                     ORDER BY t.at LIMIT ?2 FOR UPDATE OF t, m SKIP LOCKED) AS ended) AS old
                 ORDER BY old.at, old.seq LIMIT ?2",
            age: "",
        },
        seen: Old {
            rows: "SELECT seen.seq FROM (
                     SELECT t.seq, t.at FROM {t}_trouble AS t JOIN {t} AS m ON m.seq = t.seq
                     WHERE t.state > 0 AND t.state = {state} AND t.at < ?1
                     ORDER BY t.at LIMIT ?2 FOR UPDATE OF t, m SKIP LOCKED) AS seen",
            age: "",
        },
    },
    questions: QuestionSql {
        newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
             (SELECT max(no) FROM {t}_failures), {last_done},
             (SELECT max(at) FROM {t}_trouble WHERE state > 0 AND state = 3),
             (SELECT max(at) FROM {t}_trouble WHERE state > 0 AND state = 4),
             (SELECT max(at) FROM {t}_trouble WHERE state > 0 AND state = 7)",
        activity: "SELECT count(*), max(held.at), {last_done},
                 (SELECT at FROM {t}_failures ORDER BY no DESC LIMIT 1),
                 (SELECT max(maintained_at) FROM {s}postroom_schema WHERE outbox = ?3 AND inbox = ?4)
             FROM (SELECT e.at FROM {t}_lease AS e{under_it} WHERE e.until > ?1 LIMIT ?2) AS held",
        ahead: "SELECT count(*) FROM (
                 SELECT 1 FROM {t}_line WHERE visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2)
                 ORDER BY visible_at LIMIT ?3) AS line",
        done_rate: "SELECT coalesce(sum(n), 0)::bigint, min(at) FROM (
                 SELECT * FROM (SELECT at, to_seq - from_seq + 1 AS n FROM {t}_done WHERE at >= ?1
                                ORDER BY at DESC LIMIT ?3) AS runs
                 UNION ALL
                 SELECT * FROM (SELECT at, 1 FROM {t}_trouble WHERE state > 0 AND state = 2 AND at >= ?1
                                ORDER BY at DESC LIMIT ?3) AS by_hand) AS done
             WHERE at <= ?2",
        ..shared::QUESTIONS
    },
    // The column of the conflict is not named: naming it would require the permission to read it.
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values}) ON CONFLICT DO NOTHING",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    unique: Some(UniqueSql::new(TAKE)),
    inbox_alone: InboxSql {
        insert: "INSERT INTO {t} ({new}, born) VALUES ({new_values}, 0) ON CONFLICT (source, message_id) DO NOTHING",
        accept: "INSERT INTO {t} ({new}, born) SELECT {new_values}, 0 WHERE {durable} IS NOT NULL
             ON CONFLICT (source, message_id) DO UPDATE SET {accepted_excluded}
             WHERE {t}.visible_at IS NULL
               AND {t}_is_seen({t}.seq)",
        see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at, born) VALUES (?1, ?2, ?3, ?4, ?4, 5)
             ON CONFLICT (source, message_id) DO NOTHING",
        touch: "INSERT INTO {t}_seen AS s (seq, at, hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (seq) DO UPDATE SET at = excluded.at, hash = coalesce(s.hash, excluded.hash)",
        count: "SELECT state, count(*) FROM {t}_trouble WHERE state > 0 AND state IN (5, 6) GROUP BY state",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n,
                 (SELECT reltuples::bigint FROM pg_class WHERE oid = '{t}'::regclass)) END
             FROM (SELECT count(*) AS n FROM (SELECT 1 FROM {t} LIMIT 100000) AS seen) AS few",
        marks_purge: "DELETE FROM {t}_marks WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {t}_marks WHERE handler = ?1 AND marked_at < ?2
                 ORDER BY marked_at LIMIT ?3 FOR UPDATE SKIP LOCKED))",
        payloads_until: "SELECT max(at) FROM (
                 SELECT at, sum(to_seq - from_seq + 1) OVER (ORDER BY at, from_seq) - (to_seq - from_seq + 1) AS earlier
                 FROM (SELECT at, from_seq, to_seq FROM {t}_done WHERE at > ?1 AND at <= ?2
                       ORDER BY at LIMIT ?3::bigint) AS next
             ) AS counted WHERE earlier < ?3::bigint",
        payloads_drop: "UPDATE {t} SET payload = '', dropped_at = ?3 WHERE {large} AND seq = ANY (ARRAY(
                 SELECT m.seq FROM {t}_done AS d CROSS JOIN LATERAL (
                     SELECT x.seq FROM {t} AS x WHERE x.seq BETWEEN d.from_seq AND d.to_seq OFFSET 0) AS m
                 WHERE d.at > ?1 AND d.at <= ?2))",
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
             INSERT INTO {t} ({new}, born) SELECT {new_values}, 1 FROM twin WHERE free AND {durable} IS NOT NULL
             ON CONFLICT (source, message_id) DO NOTHING RETURNING seq
         ), lease AS (
             INSERT INTO {t}_lease (at, until, first_seq, last_seq, n)
             SELECT {@created_at}, {@visible_at}, seq, seq, 1 FROM arrived RETURNING no
         ), held AS (
             INSERT INTO {t}_held (seq, lease, owner, claim_no)
             SELECT arrived.seq, lease.no, {@owner}, 1 FROM arrived, lease
         ) SELECT free::int, (SELECT seq FROM arrived) FROM twin",
    ),
    idle_poll: Some(concat!(
        "SELECT (EXISTS (SELECT 1 FROM {outbox}_line WHERE crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                OR EXISTS (SELECT 1 FROM {outbox}_lease WHERE until BETWEEN ?4 AND ?1)
                OR EXISTS (SELECT 1 FROM {outbox}_lane_notes WHERE id > 0))::int,
                (EXISTS (SELECT 1 FROM {inbox}_line WHERE crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                OR EXISTS (SELECT 1 FROM {inbox}_lease WHERE until BETWEEN ?5 AND ?1)
                OR EXISTS (SELECT 1 FROM {inbox}_lane_notes WHERE id > 0))::int, ",
        read_only!(),
        ", (EXISTS (SELECT 1 FROM {outbox}_rules))::int, (EXISTS (SELECT 1 FROM {inbox}_rules))::int"
    )),
};

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence {
    one: "(?2::uuid IS NOT NULL OR ?3::bigint IS NOT NULL)",
    each: Some("h.seq = ANY (?1::bigint[]) AND (?2::uuid[] IS NOT NULL OR ?3::bigint[] IS NOT NULL)"),
};

#[cfg(test)]
mod tests {
    use super::POSTGRES;
    use crate::message::NewMessage;
    use crate::sql::TableNames;
    use crate::store::sql::SqlVerbs;

    #[test]
    fn a_statement_carries_no_more_than_a_server_takes() {
        let verbs = SqlVerbs::new(&POSTGRES, TableNames::default(), None, POSTGRES.fence);
        let messages = |count, bytes| vec![NewMessage::new("a", "x".repeat(bytes)); count];
        assert_eq!(verbs.rows_that_fit(&messages(100, 1 << 20)), 64);
        assert_eq!(verbs.rows_that_fit(&messages(2, 65 << 20)), 1, "one of any size");
        assert_eq!(verbs.rows_that_fit(&messages(30_000, 1)), 20_000);
    }
}
