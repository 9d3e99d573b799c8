//! SQL Server, and servers that speak its language. A row that is read to be written is locked at the same time; rows
//! that others have locked are skipped. A server may ignore that, so every write checks again what it read. Procedures
//! of the schema claim messages and move them, each in one round trip. Lists of leases travel as JSON, and messages
//! that move as a table. MERGE is not used: it is not safe under concurrency without range locks. `{v}` is a view of
//! all messages by their number or key, and `{f}` of those in one state.

mod questions;
mod session;
mod steps;
mod words;

pub(crate) use session::{
    BATCH_END, BEGIN, BEGIN_HANDLER, COMMIT, DEPLOY_BEGIN, DEPLOY_END, DEPLOY_LOCK, DEPTH, FORGIVING, HELLO, MOVED,
    ROLL_BACK, ROW_COUNT, SETTINGS, STATE,
};

use crate::sql::dialect::{Dialect, Fence, Identity, InStateSql, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines, ManySql};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::shared;
use crate::sql::text::Places;
use steps::STEPS;
use words::WORDS;

pub(crate) const MSSQL: Dialect = Dialect {
    places: Places::Numbered("@P"),
    casts: false,
    words: WORDS,
    schema: concat!(
        include_str!("schema/0001_init.sql"),
        include_str!("schema/0001_triggers.sql"),
        include_str!("schema/0001_enqueue.sql"),
        include_str!("schema/0001_procedures.sql")
    ),
    schema_each: Some(include_str!("schema/0001_each.sql")),
    create_schema: Some("IF SCHEMA_ID(N'{schema}') IS NULL\n    EXEC (N'CREATE SCHEMA {schema}');\nGO\n\n"),
    secure: None,
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 2,
    steps: &STEPS,
    // `done_at + 0`: with `done_at = 0` the index of held messages might be scanned and locked.
    fence: Fence {
        one: "done_at + 0 = 0 AND owner = ?2 AND claim_no = ?3",
        each: Some("done_at + 0 = 0 AND owner = a.o AND claim_no = a.c"),
    },
    outbox: Identity::outbox("id, message_id, destination, CAST(NULL AS bigint) AS last_seen_at"),
    inbox: Identity {
        destination: "CAST(NULL AS nvarchar(510))",
        // Later arrivals are noted in the message's own row: numbers are changed in their place here.
        seen: "\n    CROSS JOIN (SELECT CAST(NULL AS bigint) AS at, CAST(NULL AS varbinary(max)) AS hash) AS s",
        ..Identity::INBOX
    },
    insert_many: InsertMany::Answered {
        // A table with a trigger answers only by way of another one.
        sql: "DECLARE @new TABLE (id uniqueidentifier NOT NULL);
             INSERT INTO {t} ({new}) OUTPUT inserted.id INTO @new (id)
             SELECT {new_listed} FROM (VALUES {each|({new_marks})|, }) AS a ({new})
             WHERE NOT EXISTS (SELECT 1 FROM {t} AS b WITH (READCOMMITTEDLOCK) WHERE b.id = a.id);
             SELECT id FROM @new",
        // Each value is a numbered parameter; a server takes at most 2,100 of them.
        all_new: None,
        all_told: None,
        sizes: &[150, 50],
        null: Some(" "),
    },
    claim: Claim::AtOnce {
        take: Lines { all: "{claims}", topics: "{claims_of}", suspects: "{claims_of}, @suspects = 1" },
        look: "SELECT (SELECT MIN(visible_at) FROM {t}_line{past} WHERE crashes = 0 AND visible_at >= ?2),
                    (SELECT MIN(until) FROM {t}_taken{past} WHERE done_at = 0 AND until >= ?3),
                    (SELECT MIN(expires_at) FROM {t}_line{past} WHERE expires_at BETWEEN ?4 AND ?1)",
        take_or_look: None,
    },
    many: Some(ManySql {
        ack_many: "UPDATE {t}_taken SET done_at = ?2 WHERE {in_leases} {fence_each})",
        save_many: "{moving} VALUES {each|({saved_marks})|, }; {moved}; SELECT @moved",
        load_leases: "SELECT {bare} FROM (
                 SELECT {wide}, {held} FROM {t}_taken AS h{locked} JOIN {t} AS m ON m.seq = h.seq{beside_now}
                 WHERE EXISTS (SELECT 1 FROM {asked} WHERE a.n = h.seq AND {fence_each})) AS q ORDER BY seq",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             SELECT a.seq, a.at, a.attempt, a.worker, a.error, a.code
             FROM (VALUES {each|(?, ?, ?, ?, ?, ?)|, }) AS a (seq, at, attempt, worker, error, code)",
        failure_trim_many: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
                 SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
                 FROM {t}_failures AS f WHERE f.seq IN ({list|?|, })) AS ranked WHERE ranked.place > ?1)",
    }),
    ack_ranges: Some(
        "UPDATE {t}_taken SET done_at = ?1, owner = ?2 WHERE ({list|seq BETWEEN ? AND ?| OR }) AND {fence}",
    ),
    extend: Extend::Answered(
        "UPDATE {t}_taken SET until = ?2 OUTPUT inserted.seq, inserted.claim_no, 1
         WHERE {in_leases} done_at + 0 = 0 AND owner = a.o AND claim_no = a.c)",
    ),
    runs: None,
    lanes: None,
    ruled_lanes: None,
    checks_saves: true,
    queue: QueueSql {
        topics_next: "SELECT MIN(waiting.at) FROM (
                 SELECT MIN(visible_at) AS at FROM {t}_line{past} WHERE crashes = 0 AND visible_at >= ?5 AND {among}
                 UNION ALL SELECT MIN(until) FROM {t}_taken{past} WHERE done_at = 0) AS waiting",
        suspects_next: "SELECT MIN(visible_at) FROM {t}_line{past} WHERE crashes > 0 AND {among}",
        ack: "UPDATE {t}_taken SET done_at = ?5, owner = ?2, response = coalesce(?4, response)
             WHERE seq = ?1 AND {fence}",
        held: "SELECT 1 FROM {t}_taken WHERE seq = ?1 AND {fence}",
        load_lease: "SELECT {bare} FROM (
                 SELECT {wide}, {held} FROM {t}_taken AS h{locked} JOIN {t} AS m ON m.seq = h.seq{beside_now}
                 WHERE h.seq = ?1 AND {fence}) AS q",
        load_claimed: "SELECT {record} FROM {f} WHERE state = 1 AND visible_at = ?1 AND owner = ?2 ORDER BY seq",
        load_over: "SELECT TOP (?2) {bare} FROM (
                 SELECT {wide}, {held} FROM {t}_taken AS h{locked_past} JOIN {t} AS m ON m.seq = h.seq{beside_now}
                 WHERE h.done_at = 0 AND h.until <= ?1) AS q ORDER BY visible_at, seq OPTION (LOOP JOIN)",
        load_expired: "DECLARE @late TABLE (seq bigint NOT NULL PRIMARY KEY);
             INSERT INTO @late (seq)
             SELECT TOP (?2) l.seq FROM {t}_line AS l{locked_past} WHERE l.expires_at <= ?1 ORDER BY l.expires_at;
             SELECT {bare} FROM {v} WHERE seq IN (SELECT late.seq FROM @late AS late) AND state = 0
             ORDER BY expires_at, seq OPTION (LOOP JOIN)",
        // The message is locked first, and whoever moves one locks it too. A claim does not: the line is read before
        // what was taken, so a message that is claimed meanwhile is seen in one of them.
        load_key: "DECLARE @seq bigint = (SELECT k.seq FROM {t} AS k{locked} WHERE {key});
             SELECT {record} FROM {v} WITH (READCOMMITTEDLOCK) WHERE seq = @seq OPTION (FORCE ORDER)",
        list: "SELECT TOP (?5) {record} FROM {v} WHERE (?7 IS NULL OR state = ?7) AND {filter}
             ORDER BY seq OPTION (RECOMPILE)",
        save: "{moving} VALUES ({saved_places}); {moved}; SELECT @moved",
        put_back: "{moving} SELECT seq, ?2, ?4, ?5, due_at, ?6, ?7, ?8, ?2, {nobody}, CAST(NULL AS bigint), last_error,
                 ?9, {nobody}, ?10, CAST(NULL AS nvarchar(max)), ?3
             FROM {v} WHERE seq = ?1; {moved}; SELECT @moved",
        dismiss: "{moving} SELECT seq, ?2, 7, CAST(NULL AS bigint), due_at, next_attempt_at, attempts, crashes, ?2,
                 {nobody}, CAST(NULL AS bigint), last_error, ?4, processed_by, expires_at, response, ?3
             FROM {v} WHERE seq = ?1; {moved};
             UPDATE {t}_trouble SET dismissed_by = ?5, dismissed_why = ?6 WHERE seq = ?1 AND @moved = 1",
        ahead_set: "{moving} SELECT seq, ?2, ?3, ?4, due_at, ?5, attempts, crashes, ?2, owner, ?6, last_error,
                 CAST(NULL AS bigint), {nobody}, expires_at, response, ?3
             FROM {v} WHERE seq = ?1 AND visible_at = ?9; {moved};
             UPDATE {t} SET created_at = ?8 WHERE seq = ?1 AND @moved = 1;
             UPDATE {t}_taken SET at = ?7 WHERE seq = ?1 AND @moved = 1;
             UPDATE {t}_trouble SET last_attempt_at = ?7 WHERE seq = ?1 AND @moved = 1",
        expire_dead: "DECLARE @late TABLE (seq bigint NOT NULL PRIMARY KEY);
             INSERT INTO @late (seq)
             SELECT TOP (?2) seq FROM {t}_trouble{locked_past} WHERE state = 3 AND expires_at <= ?1
             ORDER BY expires_at, seq;
             UPDATE {t}_trouble SET state = 4, at = ?1
             WHERE seq IN (SELECT late.seq FROM @late AS late) AND state = 3 OPTION (LOOP JOIN)",
        count_overdue: "{count_up_to} {t}_line{past} WHERE expires_at <= ?1) AS found",
        count_purgeable: "{count_up_to} {t}_taken{past} WHERE done_at > 0 AND done_at < ?1) AS found",
        failure_trim: "DELETE FROM {t}_failures WHERE seq = ?1 AND no NOT IN (
                 SELECT TOP (?2) young.no FROM {t}_failures AS young WHERE young.seq = ?1 ORDER BY young.no DESC)",
        audit_list: "SELECT TOP (?1) at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC",
        count_to: "{count_up_to} {t}_line{past} WHERE place = N'>' + ?1) AS found",
        count_of: "{count_up_to} {t}_line{past} WHERE place = N'=' + ?1) AS found",
        // What is locked counts too.
        count_held_to: "SELECT COUNT_BIG(*) FROM {f} WHERE state = 1 AND {destination} = ?1 AND NOT ({here})",
        count_held_of: "SELECT COUNT_BIG(*) FROM {f} WHERE state = 1 AND {here} AND topic = ?1",
        count: "SELECT 0, COUNT_BIG(*) FROM {t}_line{past}
             UNION ALL SELECT 1, COUNT_BIG(*) FROM {t}_taken{past} WHERE done_at = 0
             UNION ALL SELECT 2, COUNT_BIG(*) FROM {t}_taken{past} WHERE done_at > 0
             UNION ALL SELECT 3, COUNT_BIG(*) FROM {t}_trouble{past} WHERE state = 3
             UNION ALL SELECT 4, COUNT_BIG(*) FROM {t}_trouble{past} WHERE state = 4
             UNION ALL SELECT 7, COUNT_BIG(*) FROM {t}_trouble{past} WHERE state = 7",
        count_waiting: "SELECT (SELECT COUNT_BIG(*) FROM {t}_line{past})
                    + (SELECT COUNT_BIG(*) FROM {t}_taken{past} WHERE done_at = 0)",
        oldest:
            "SELECT TOP (1) m.created_at, l.visible_at FROM {t}_line AS l{past} JOIN {t} AS m{past} ON m.seq = l.seq
             ORDER BY l.visible_at, l.seq",
        // A message that moves meanwhile may be seen nowhere. So what seems wrong is looked at again.
        misplaced: "DECLARE @wrong TABLE (seq bigint NOT NULL PRIMARY KEY);
             INSERT INTO @wrong (seq) SELECT DISTINCT TOP (1000) seq FROM {t}_misplaced;
             SELECT COUNT_BIG(DISTINCT seq) FROM {t}_misplaced WHERE seq IN (SELECT wrong.seq FROM @wrong AS wrong)",
        // Lanes are not kept.
        lane_rows: "SELECT TOP (?3) seq, seq FROM {t} WHERE lane = ?1 AND seq > ?2 ORDER BY seq",
        ..shared::QUEUE
    },
    in_state: InStateSql {
        // The planner learns each time which values are null.
        list: "SELECT TOP (?5) {listed} FROM {f} WHERE state = {state} AND {filter} ORDER BY seq OPTION (RECOMPILE)",
        nth_newest: "SELECT seq FROM {t}_trouble WHERE state = {state}
             ORDER BY seq DESC OFFSET ?1 ROWS FETCH NEXT 1 ROWS ONLY",
        // Compared letter by letter.
        groups: "SELECT topic, party, error, COUNT_BIG(*), MIN(processed_at), MAX(processed_at), MIN(seq)
             FROM (SELECT topic, {party} AS party, {error} COLLATE Latin1_General_100_BIN2 AS error, processed_at, seq
                   FROM {f}{past} WHERE state = {state} AND seq >= ?1) AS looked_at
             GROUP BY topic, party, error",
        ahead: "SELECT TOP (?3) seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at,
                    visible_at
             FROM {f}{past} WHERE state = {state} AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
             ORDER BY visible_at, seq",
    },
    purge: PurgeTexts {
        // A message goes only if it could be taken from its place.
        rows: "DECLARE @old TABLE (seq bigint NOT NULL PRIMARY KEY);
             DECLARE @gone TABLE (seq bigint NOT NULL PRIMARY KEY);
             IF {old} = 2
             BEGIN
                 INSERT INTO @old (seq) SELECT TOP (?2) seq FROM {t}_taken{locked_past}
                 WHERE done_at > 0 AND done_at < ?1 ORDER BY done_at, seq;
                 DELETE FROM {t}_taken OUTPUT deleted.seq INTO @gone (seq)
                 WHERE seq IN (SELECT old.seq FROM @old AS old) AND done_at > 0 AND done_at < ?1 OPTION (LOOP JOIN);
             END
             ELSE
             BEGIN
                 INSERT INTO @old (seq) SELECT TOP (?2) seq FROM {t}_trouble{locked_past}
                 WHERE state = {old} AND at < ?1 ORDER BY at, seq;
                 DELETE FROM {t}_trouble OUTPUT deleted.seq INTO @gone (seq)
                 WHERE seq IN (SELECT old.seq FROM @old AS old) AND state = {old} AND at < ?1 OPTION (LOOP JOIN);
             END;
             DELETE FROM {t} WHERE seq IN (SELECT gone.seq FROM @gone AS gone) OPTION (LOOP JOIN)",
        reclaim: None,
        ended: Old { rows: "{state}", age: "" },
        seen: Old { rows: "{state}", age: "" },
    },
    questions: questions::QUESTIONS,
    outbox_insert: "INSERT INTO {t} ({new}) SELECT {new_values} {if_new}",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    unique: None,
    inbox_alone: InboxSql {
        insert: INBOX_INSERT,
        accept: INBOX_INSERT,
        see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at) SELECT ?1, ?2, ?3, ?4, ?4 {if_new}",
        begin: "UPDATE {t} SET born = 6 WHERE seq = ?1 AND born = 5;
             UPDATE {t}_trouble SET state = 6, attempts = attempts + 1, last_attempt_at = ?2
             WHERE seq = ?1 AND state IN (5, 6)",
        count: "SELECT state, COUNT_BIG(*) FROM {t}_trouble WHERE state IN (5, 6) GROUP BY state",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE (SELECT SUM(p.rows) FROM sys.partitions AS p
                 WHERE p.object_id = OBJECT_ID(N'{t}') AND p.index_id IN (0, 1)) END
             FROM (SELECT COUNT_BIG(*) AS n FROM (SELECT TOP (100000) 1 AS one FROM {t}{past}) AS seen) AS few",
        mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at) SELECT ?1, ?2, ?3, ?4, ?5
             WHERE NOT EXISTS (SELECT 1 FROM {t}_marks WITH (READCOMMITTEDLOCK)
                               WHERE source = ?1 AND message_id = ?2 AND handler = ?3)",
        marks_purge: "DELETE FROM {t}_marks WHERE seq IN (
                 SELECT TOP (?3) old.seq FROM {t}_marks AS old{locked_past}
                 WHERE old.handler = ?1 AND old.marked_at < ?2 ORDER BY old.marked_at)",
        payloads_until: "SELECT MAX(done_at) FROM (
                 SELECT TOP (?3) done_at FROM {t}_taken WHERE done_at > 0 AND done_at > ?1 AND done_at <= ?2
                 ORDER BY done_at) AS following",
        payloads_drop: "UPDATE {t} SET payload = N'', dropped_at = ?3 WHERE {large} AND seq IN (
                 SELECT h.seq FROM {t}_taken AS h WHERE h.done_at > 0 AND h.done_at > ?1 AND h.done_at <= ?2)
             OPTION (LOOP JOIN)",
        ..shared::INBOX
    },
    accept_seen: Some("UPDATE {t} SET {accepted}, born = 0 WHERE {key} AND born = 5"),
    // Another transaction with the same message holds the lock, and nobody waits for it. The lock's name is cut at the
    // start to the longest that is allowed; the length of the source distinguishes a/b and c from a and b/c. Babelfish
    // answers -999 when the lock is held, which SQL Server uses when something is wrong.
    arrive: Arrive::Answered(
        "DECLARE @free int, @seq bigint, @twin nvarchar(255) = N'{t}/' + RIGHT(
             CAST(LEN(?1) AS nvarchar(9)) + N'/' + ?1 + N'/' + ?2, 254 - LEN(N'{t}'));
         EXEC @free = sp_getapplock @Resource = @twin, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
                                    @LockTimeout = 0;
         IF @free = -999 AND APPLOCK_TEST(N'public', @twin, N'Exclusive', N'Transaction') = 0
             SET @free = -1;
         IF @free < -1
             THROW 51006, N'the lock of an arriving message could not be asked for', 1;
         IF @free >= 0
         BEGIN
             INSERT INTO {t} ({new}, born) SELECT {new_values}, 1 {if_new};
             IF @@ROWCOUNT = 1
             BEGIN
                 SET @seq = CAST(SCOPE_IDENTITY() AS bigint);
                 INSERT INTO {t}_taken (seq, claim_no, owner, at, until)
                 SELECT @seq, 1, {@owner}, {@created_at}, {@visible_at};
             END;
         END;
         SELECT CASE WHEN @free = -1 THEN 0 ELSE 1 END, @seq",
    ),
    idle_poll: Some(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM {outbox}_line{past}
                               WHERE crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                       OR EXISTS (SELECT 1 FROM {outbox}_taken{past} WHERE done_at = 0 AND until BETWEEN ?4 AND ?1)
                  THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {inbox}_line{past}
                               WHERE crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                       OR EXISTS (SELECT 1 FROM {inbox}_taken{past} WHERE done_at = 0 AND until BETWEEN ?5 AND ?1)
                  THEN 1 ELSE 0 END,
                CASE WHEN {updateability} = N'READ_ONLY' THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {outbox}_rules) THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {inbox}_rules) THEN 1 ELSE 0 END",
    ),
};

const INBOX_INSERT: &str = "INSERT INTO {t} ({new}, born) SELECT {new_values}, 0 {if_new}";

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: Some("a.o IS NOT NULL") };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::TableNames;
    use crate::sql::dialect::Statements;

    #[test]
    fn nothing_is_shared_that_the_server_does_not_understand() {
        let statements = format!("{:?}", Statements::new(&MSSQL, &TableNames::infra_capitals(), MSSQL.fence));
        for foreign in
            [" LIMIT ", "ON CONFLICT", "RETURNING", " || ", "count(*)", "FOR UPDATE", "substr(", "octet_length"]
        {
            let found = statements.find(foreign).map(|at| &statements[at.saturating_sub(200)..at + foreign.len()]);
            assert_eq!(found, None, "{foreign}");
        }
    }
}
