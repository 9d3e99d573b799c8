//! MySQL 8 and MariaDB. Transactions run under READ COMMITTED.
//!
//! A trigger cannot change a table that its statement reads, and no statement returns the rows that it changed. So
//! procedures of the schema claim messages and move them; they answer with the rows, or with how many moved. What is
//! acknowledged stays where it was held: an ack is one UPDATE of numbers in their place. `{v}` is a view of all
//! messages by their number or key. `{in_0}` to `{in_7}` are the messages in one state.

mod lanes;
mod steps;
mod words;

use crate::sql::dialect::{Dialect, Fence, Identity, InStateSql, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, LaneLook, Lines, ManySql, RuledLanes};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::questions::QuestionSql;
use crate::sql::shared;
use crate::sql::text::{Places, SIZES};
use crate::sql::unique::UniqueSql;
use steps::STEPS;
use words::WORDS;

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
/// the handler ignores the deadlock, its next write must not commit by itself. Answers whether it is read-only.
pub(crate) const BEGIN_HANDLER: &str = concat!(
    "SET autocommit = 0; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
     START TRANSACTION; SAVEPOINT postroom_handler; SELECT ",
    read_only!()
);
/// Rolls a transaction back, and answers whether the next one could write, in one round trip.
pub(crate) const ROLL_BACK: &str = concat!("ROLLBACK; SELECT ", clock!(), ", ", read_only!());
/// Commits a handler's transaction. If it is no longer the one that was begun, the savepoint is gone, and the commit
/// after it is not run.
pub(crate) const COMMIT_HANDLER: &str = "RELEASE SAVEPOINT postroom_handler; COMMIT";
/// What a server must report before we trust it: its time, whether it is read-only, and its version.
pub(crate) const HELLO: &str = concat!("SELECT ", clock!(), ", ", read_only!(), ", version()");
/// Keeps two programs from deploying the schema at once.
pub(crate) const DEPLOY_LOCK: &str = "SELECT CAST(GET_LOCK('postroom_schema', 60) AS SIGNED)";
pub(crate) const DEPLOY_UNLOCK: &str = "SELECT RELEASE_LOCK('postroom_schema')";

/// Claims messages of every place.
macro_rules! claim {
    ($how:literal) => {
        concat!("CALL {t}_claim(", $how, ", ?1, ?2, ?3, ?4, ?5, ?8, ?6, ?7, NULL, NULL, NULL, NULL)")
    };
}

/// Claims messages of some topics and destinations.
macro_rules! claim_of {
    ($how:literal) => {
        concat!("CALL {t}_claim(", $how, ", ?1, ?2, ?3, ?4, ?5, ?8, ?6, ?7, ?9, ?10, ?11, ?12)")
    };
}

/// Whether something is ready, a lease is over, or a lane is to be looked at, in one of the queues.
macro_rules! may_have_work {
    ($table:literal, $ready:literal, $leased:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM ",
            $table,
            "_line WHERE crashes = 0 AND visible_at BETWEEN ",
            $ready,
            " AND ?1)
              OR EXISTS (SELECT 1 FROM ",
            $table,
            "_lease AS e WHERE e.until BETWEEN ",
            $leased,
            " AND ?1
                         AND (SELECT h.seq FROM ",
            $table,
            "_taken AS h
                              WHERE h.done_at = 0 AND h.lease = e.no LIMIT 1) IS NOT NULL)
              OR EXISTS (SELECT 1 FROM ",
            $table,
            "_taken WHERE done_at < 0)
              OR EXISTS (SELECT 1 FROM ",
            $table,
            "_lane WHERE news = 1)
              OR EXISTS (SELECT 1 FROM ",
            $table,
            "_lane_notes))"
        )
    };
}

pub(crate) const MYSQL: Dialect = Dialect {
    places: Places::Counted,
    casts: false,
    words: WORDS,
    schema: include_str!("schema/0001_init.sql"),
    schema_each: Some(include_str!("schema/0001_each.sql")),
    create_schema: None,
    secure: None,
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 2,
    steps: &STEPS,
    fence: Fence {
        one: "done_at = 0 AND owner = ?2 AND claim_no = ?3",
        each: Some("t.done_at = 0 AND t.owner = a.o AND t.claim_no = a.c"),
    },
    outbox: Identity::outbox("id, message_id, destination, NULL"),
    inbox: Identity::INBOX,
    insert_many: InsertMany::AllOrNone { sql: "INSERT INTO {t} ({new}) VALUES {each|({new_marks})|, }", sizes: &SIZES },
    claim: Claim::Called {
        alone: Lines {
            all: claim!("TRUE, FALSE"),
            topics: claim_of!("TRUE, FALSE"),
            suspects: claim_of!("TRUE, TRUE"),
        },
        within: Lines {
            all: claim!("FALSE, FALSE"),
            topics: claim_of!("FALSE, FALSE"),
            suspects: claim_of!("FALSE, TRUE"),
        },
        look: "SELECT
             (SELECT visible_at FROM {t}_line WHERE crashes = 0 AND visible_at >= ?2 ORDER BY visible_at LIMIT 1),
             (SELECT e.until FROM {leases} WHERE e.until >= ?3 AND {held_of} IS NOT NULL ORDER BY e.until LIMIT 1),
             (SELECT min(expires_at) FROM (
                 SELECT * FROM (SELECT expires_at FROM {t}_line WHERE expires_at BETWEEN ?4 AND ?1
                                ORDER BY expires_at LIMIT 1) AS in_line
                 UNION ALL
                 SELECT * FROM (SELECT expires_at FROM {t}_lane WHERE expires_at BETWEEN ?4 AND ?1
                                ORDER BY expires_at LIMIT 1) AS in_lane) AS expiring),
             {lane_work}",
    },
    many: Some(ManySql {
        ack_many: "UPDATE ({list|SELECT ? AS n, ? AS o, ? AS c, ? AS r| UNION ALL }) AS a
                 STRAIGHT_JOIN {t}_taken AS t FORCE INDEX (PRIMARY) ON t.seq = a.n
             SET t.done_at = ?1 * (1 - 2 * t.laned), t.lease = 0, t.owner = a.o,
                 t.response = coalesce(a.r, t.response)
             WHERE {fence_each}",
        save_many: "CALL {t}_save_many({json|{saved_json}})",
        load_leases: "SELECT {bare} FROM (
                 SELECT t.seq AS n FROM ({list|SELECT ? AS n, ? AS o, ? AS c| UNION ALL }) AS a
                     STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = a.n
                     STRAIGHT_JOIN {t}_taken AS t FORCE INDEX (PRIMARY) ON t.seq = m.seq
                 WHERE {fence_each} FOR UPDATE) AS mine STRAIGHT_JOIN {in_1} ON q.seq = mine.n ORDER BY seq",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             VALUES {each|(?, ?, ?, ?, ?, ?)|, }",
        failure_trim_many: "DELETE f FROM (
                 SELECT no, row_number() OVER (PARTITION BY seq ORDER BY no DESC) AS place
                 FROM {t}_failures FORCE INDEX ({n}_failures_seq) WHERE seq IN ({list|?|, })) AS ranked
                 STRAIGHT_JOIN {t}_failures AS f FORCE INDEX (PRIMARY) ON f.no = ranked.no
             WHERE ranked.place > ?1",
    }),
    ack_ranges: Some(
        "UPDATE {t}_taken SET done_at = ?1 * (1 - 2 * laned), lease = 0, owner = ?2
         WHERE ({list|seq BETWEEN ? AND ?| OR }) AND {fence}",
    ),
    extend: Extend::Answered("CALL {t}_extend({json|n o c}, ?2)"),
    runs: None,
    lanes: Some(LaneLook::Alone("CALL {t}_lane_look(?1, ?2)")),
    ruled_lanes: Some(RuledLanes {
        lane: "CALL {t}_lane_heads_back(CAST(?1 AS BINARY))",
        topic: "CALL {t}_lanes_ruled(CAST(?1 AS BINARY))",
    }),
    checks_saves: true,
    queue: QueueSql {
        topics_next: "SELECT min(at) FROM (
                 SELECT * FROM (SELECT visible_at AS at FROM {t}_line WHERE crashes = 0 AND visible_at >= ?5 AND {among}
                                ORDER BY visible_at, seq LIMIT 1) AS front
                 UNION ALL
                 SELECT * FROM (SELECT e.until AS at FROM {leases} WHERE e.until >= ?13 AND {held_of} IS NOT NULL
                                ORDER BY e.until LIMIT 1) AS held) AS waiting",
        suspects_next: "SELECT t.suspect_at FROM {suspects} WHERE t.suspect_at IS NOT NULL AND {among}
             ORDER BY t.suspect_at LIMIT 1",
        // Negative if the message has a lane: then the lane is to be looked at.
        ack: "UPDATE {t}_taken
             SET done_at = ?5 * (1 - 2 * laned), lease = 0, owner = ?2, response = coalesce(?4, response)
             WHERE seq = ?1 AND {fence}",
        held: "SELECT 1 FROM {t}_taken WHERE seq = ?1 AND {fence}",
        load_lease: "SELECT {bare} FROM (
                 SELECT m.seq AS n FROM {t} AS m STRAIGHT_JOIN {t}_taken AS h ON h.seq = m.seq
                 WHERE m.seq = ?1 AND {fence} FOR UPDATE) AS mine
                 STRAIGHT_JOIN {in_1} ON q.seq = mine.n",
        load_claimed: "SELECT {record} FROM (
                 SELECT h.seq AS n FROM {leases} STRAIGHT_JOIN {held_under} WHERE e.until = ?1 AND h.owner = ?2) AS mine
                 STRAIGHT_JOIN {in_1} ON q.seq = mine.n ORDER BY seq",
        load_over: "SELECT {bare} FROM (
                 SELECT m.seq AS n FROM {leases} STRAIGHT_JOIN {held_under}
                     STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = h.seq
                 WHERE e.until <= ?1 ORDER BY e.until LIMIT ?2 FOR UPDATE SKIP LOCKED) AS mine
                 STRAIGHT_JOIN {in_1} ON q.seq = mine.n ORDER BY visible_at, seq",
        load_expired: "SELECT {bare} FROM (
                 SELECT l.visible_at AS v, m.seq AS n FROM {t}_line AS l FORCE INDEX ({n}_line_expiring)
                     STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = l.seq
                 WHERE l.expires_at <= ?1 ORDER BY l.expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED) AS mine
                 STRAIGHT_JOIN {in_0} ON q.visible_at = mine.v AND q.seq = mine.n
             UNION ALL
             SELECT {bare} FROM (
                 SELECT m.seq AS n FROM {t}_lane AS w FORCE INDEX ({n}_lane_expiring)
                     STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = w.seq
                 WHERE w.expires_at <= ?1 ORDER BY w.expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED) AS mine
                 STRAIGHT_JOIN {in_lane} ON q.seq = mine.n ORDER BY expires_at, seq",
        save: "CALL {t}_save({saved_places})",
        put_back: "CALL {t}_put_back(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        dismiss: "CALL {t}_dismiss(?1, ?2, ?3, ?4, ?5, ?6)",
        ahead_set: "CALL {t}_correct(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        expire_dead: "CALL {t}_expire_dead(?1, ?2)",
        count_overdue: "SELECT (SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_line WHERE expires_at <= ?1 LIMIT ?2) AS in_line)
             + (SELECT count(*) FROM (SELECT 1 AS one FROM {t}_lane WHERE expires_at <= ?1 LIMIT ?2) AS in_lane)",
        count_purgeable: "SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_taken WHERE done_at BETWEEN 1 AND ?1 - 1 LIMIT ?2) AS old",
        failure_trim: "DELETE f FROM (
                 SELECT no, row_number() OVER (ORDER BY no DESC) AS place
                 FROM {t}_failures FORCE INDEX ({n}_failures_seq) WHERE seq = ?1) AS ranked
                 STRAIGHT_JOIN {t}_failures AS f FORCE INDEX (PRIMARY) ON f.no = ranked.no
             WHERE ranked.place > ?2",
        count_to: "SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_line WHERE place = concat('>', ?1)
                 UNION ALL SELECT 1 FROM {t}_lane WHERE place = 0 AND route = concat('>', ?1) LIMIT ?2) AS waiting",
        count_of: "SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_line WHERE place = concat('=', ?1)
                 UNION ALL SELECT 1 FROM {t}_lane WHERE place = 0 AND route = concat('=', ?1) LIMIT ?2) AS waiting",
        count_held_to: "SELECT count(*) FROM {t}_taken AS h STRAIGHT_JOIN {t} AS m ON m.seq = h.seq
             WHERE h.done_at = 0 AND m.destination = ?1",
        count_held_of: "SELECT count(*) FROM {t}_taken AS h STRAIGHT_JOIN {t} AS m ON m.seq = h.seq
             WHERE h.done_at = 0 AND {here} AND m.topic = ?1",
        count: "SELECT 0, (SELECT count(*) FROM {t}_line) + (SELECT count(*) FROM {t}_lane WHERE place = 0)
             UNION ALL SELECT 1, count(*) FROM {t}_taken WHERE done_at = 0
             UNION ALL SELECT 2, count(*) FROM {t}_taken WHERE done_at <> 0
             UNION ALL SELECT state, count(*) FROM {t}_trouble WHERE state IN (3, 4, 7) GROUP BY state",
        count_waiting: "SELECT (SELECT count(*) FROM {t}_line) + (SELECT count(*) FROM {t}_lane WHERE place = 0)
             + (SELECT count(*) FROM {t}_taken WHERE done_at = 0)",
        // Of what waits in lanes, the one that was written first: no key has them by their time.
        oldest: "SELECT created_at, visible_at FROM (
                 SELECT * FROM (
                     SELECT m.created_at, l.visible_at FROM {t}_line AS l STRAIGHT_JOIN {t} AS m ON m.seq = l.seq
                     ORDER BY l.visible_at, l.seq LIMIT 1) AS in_line
                 UNION ALL
                 SELECT * FROM (
                     SELECT m.created_at, w.at FROM {t}_lane AS w FORCE INDEX ({n}_lane_seq)
                         STRAIGHT_JOIN {t} AS m ON m.seq = w.seq
                     WHERE w.place = 0 ORDER BY w.seq LIMIT 1) AS in_lane) AS waiting
             ORDER BY visible_at LIMIT 1",
        ..shared::QUEUE
    },
    in_state: InStateSql {
        list: "SELECT {listed} FROM {in_{state}} WHERE state = {state} AND {filter} ORDER BY seq LIMIT ?5",
        nth_newest: "SELECT seq FROM {in_{state}} WHERE state = {state} ORDER BY seq DESC LIMIT 1 OFFSET ?1",
        // Each row separately: counting them on the server needs a temporary table whose key is so wide that it goes to
        // disk, and takes five times as long as sending the rows.
        groups: "SELECT topic, {party}, {error}, 1, processed_at, processed_at, seq
             FROM {in_{state}} WHERE state = {state} AND seq >= ?1",
        ahead: "SELECT seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
             FROM {in_{state}} WHERE visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
             ORDER BY visible_at, seq LIMIT ?3",
    },
    purge: PurgeTexts {
        rows: "CALL {t}_purge({old}, ?1, ?2)",
        reclaim: None,
        ended: Old { rows: "{state}", age: "" },
        seen: Old { rows: "{state}", age: "" },
    },
    questions: QuestionSql {
        keys: "SELECT source, message_id FROM {t} WHERE message_id = ?1 OR concat(source, '/', message_id) = ?1
             ORDER BY seq",
        newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
             (SELECT max(no) FROM {t}_failures), {last_done}, (SELECT max(at) FROM {t}_trouble WHERE state = 3),
             (SELECT max(at) FROM {t}_trouble WHERE state = 4), (SELECT max(at) FROM {t}_trouble WHERE state = 7)",
        activity: "SELECT count(*), max(last_attempt_at), {last_done},
                 (SELECT at FROM {t}_failures ORDER BY no DESC LIMIT 1),
                 (SELECT max(maintained_at) FROM {s}postroom_schema WHERE outbox = ?3 AND inbox = ?4)
             FROM (SELECT h.at AS last_attempt_at FROM {leases} STRAIGHT_JOIN {held_under}
                   WHERE e.until > ?1 LIMIT ?2) AS held",
        ahead: "SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_line WHERE visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2)
                 ORDER BY visible_at LIMIT ?3) AS line",
        done_rate: "SELECT count(*), min(at) FROM (
                 SELECT done_at AS at FROM {t}_taken WHERE done_at > 0 AND lease = 0 AND done_at >= ?1
                 ORDER BY done_at DESC LIMIT ?3) AS done
             WHERE at <= ?2",
        tally_ready: "SELECT topic, party, count(*) FROM (
                 SELECT * FROM (
                     SELECT topic, {party} AS party FROM {in_0} ORDER BY visible_at LIMIT ?1) AS in_line
                 UNION ALL
                 SELECT * FROM (
                     SELECT topic, {party} AS party FROM {in_lane} ORDER BY seq LIMIT ?1) AS in_lane
                 LIMIT ?1) AS front
             GROUP BY topic, party",
        tally_dead: "SELECT topic, party, count(*) FROM (
                 SELECT topic, {party} AS party FROM {in_3} WHERE state = 3 LIMIT ?1) AS front
             GROUP BY topic, party",
        finished: "SELECT seq, {told}, processed_at, last_error, attempts, {bytes}, {shown} FROM {in_{state}}
             WHERE state = {state} AND processed_at >= ?1 AND (processed_at > ?1 OR seq > ?2)
             ORDER BY processed_at, seq LIMIT ?3",
        count_delivered: "SELECT count(*) FROM {in_2} WHERE processed_at >= ?1 AND {party} = ?2",
        delivered_up_to: "SELECT max(seq) FROM (
                 SELECT seq FROM {in_2} WHERE processed_at >= ?1 AND {party} = ?2 AND seq > ?3
                 ORDER BY seq LIMIT ?4) AS page",
        ..lanes::QUESTIONS
    },
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values})",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    unique: Some(UniqueSql::new("CALL {t}_take(?1, ?2, ?3, ?4, ?5, ?6, ?7)")),
    inbox_alone: InboxSql {
        insert: INBOX_INSERT,
        accept: INBOX_INSERT,
        see: "INSERT INTO {t} (source, message_id, hash, payload, created_at, last_seen_at)
             VALUES (?1, ?2, ?3, '', ?4, ?4)",
        touch: "INSERT INTO {t}_seen (seq, at, hash) VALUES (?1, ?2, ?3)
             ON DUPLICATE KEY UPDATE at = VALUES(at), hash = coalesce(hash, VALUES(hash))",
        begin: "CALL {t}_begin(?1, ?2)",
        count: "SELECT state, count(*) FROM {t}_trouble WHERE state IN (5, 6) GROUP BY state",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE greatest(few.n, coalesce(
                 (SELECT CAST(table_rows AS SIGNED) FROM information_schema.tables WHERE table_name = '{n}'
                  AND table_schema = coalesce(nullif(trim(TRAILING '.' FROM '{s}'), ''), database())), 0)) END
             FROM (SELECT count(*) AS n FROM (SELECT 1 AS one FROM {t} LIMIT 100000) AS seen) AS few",
        mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        marks_purge: "DELETE FROM {t}_marks WHERE handler = ?1 AND marked_at < ?2 ORDER BY marked_at LIMIT ?3",
        payloads_until: "SELECT max(done_at) FROM (
                 SELECT done_at FROM {t}_taken FORCE INDEX ({n}_taken_by) WHERE done_at > ?1 AND done_at <= ?2
                 ORDER BY done_at LIMIT ?3) AS next",
        payloads_drop: "UPDATE {t}_taken AS h FORCE INDEX ({n}_taken_by) STRAIGHT_JOIN {t} AS m ON m.seq = h.seq
             SET m.payload = '', m.dropped_at = ?3 WHERE h.done_at > ?1 AND h.done_at <= ?2 AND {large}",
        ..shared::INBOX
    },
    // The refused insert shares a lock with those of other duplicates. Reading shares it too, so they do not deadlock.
    accept_seen: Some(
        "UPDATE (SELECT seq FROM {t} WHERE {key} AND born = 5 LOCK IN SHARE MODE) AS known
             STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = known.seq
         SET {accepted}, born = 0 WHERE m.born = 5",
    ),
    arrive: Arrive::Looked {
        look: "SELECT {record} FROM {v} WHERE {key} FOR UPDATE NOWAIT",
        insert: "INSERT INTO {t} ({new}, born) VALUES ({new_values}, 1)",
        hold: "CALL {t}_hold(?1, ?2, ?3)",
    },
    idle_poll: Some(concat!(
        "SELECT ",
        may_have_work!("{outbox}", "?2", "?4"),
        ", ",
        may_have_work!("{inbox}", "?3", "?5"),
        ", ",
        read_only!(),
        ", EXISTS (SELECT 1 FROM {outbox}_rules), EXISTS (SELECT 1 FROM {inbox}_rules)"
    )),
};

const INBOX_INSERT: &str = "INSERT INTO {t} ({new}, born) VALUES ({new_values}, 0)";

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: Some("a.o IS NOT NULL") };
