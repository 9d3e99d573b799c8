//! SQL Server, and servers that speak its language. A row that is read to be written is locked at the same time; rows
//! that others have locked are skipped. The claim is a procedure of the schema, so it takes one round trip; lists of
//! leases travel as JSON. MERGE is not used: it is not safe under concurrency without range locks.

mod questions;
mod session;

pub(crate) use session::{
    BATCH_END, BEGIN, BEGIN_HANDLER, COMMIT, DEPTH, FORGIVING, HELLO, ROLL_BACK, ROW_COUNT, SETTINGS, STATE,
};

use crate::sql::dialect::{Dialect, Fence, Identity, InStateSql, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines, ManySql};
use crate::sql::purge::PurgeTexts;
use crate::sql::shared;
use crate::sql::steps::Steps;
use crate::sql::text::Places;

pub(crate) const MSSQL: Dialect = Dialect {
    places: Places::Numbered("@P"),
    casts: false,
    words: &[
        ("error", "SUBSTRING(last_error, 1, {error_chars})"),
        // Keeps a read from waiting for other transactions: it skips the rows they have locked. In a database that
        // keeps row versions, only a read that asks for locks may skip rows.
        ("past", " WITH (READPAST, READCOMMITTEDLOCK)"),
        ("locked", " WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)"),
        ("locked_past", " WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"),
        // A transaction that looks for the row waits for another one that is just writing the same row.
        ("if_new", "WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key})"),
        // A row that is in a batch of leases. The table is named once: if it is joined with itself, a server may see a
        // row as it was before another transaction changed it.
        (
            "in_leases",
            "EXISTS (SELECT 1 FROM OPENJSON({json|n o c})
                     WITH (n bigint '$.n', o uniqueidentifier '$.o', c bigint '$.c') AS a WHERE a.n = seq AND",
        ),
        // Whether a claim covers a row: by its topic if it is handled here, otherwise by its destination. The procedure
        // uses the same condition.
        (
            "among",
            "1 = CASE
             WHEN {here} AND CHARINDEX(NCHAR(10), topic) = 0
                  AND CHARINDEX(NCHAR(10) + topic + NCHAR(10), ?9) > 0 THEN ?10
             WHEN {here} THEN 1 - ?10
             WHEN CHARINDEX(NCHAR(10), {destination}) = 0
                  AND CHARINDEX(NCHAR(10) + {destination} + NCHAR(10), ?11) > 0 THEN ?12
             ELSE 1 - ?12 END",
        ),
        (
            "claim",
            "EXEC {t}_claim @now = ?1, @batch_size = ?2, @owner_token = ?3, @until = ?4, @above = ?5, @bytes = ?6,
                               @least = ?7",
        ),
        ("claim_of", "{claim}, @topics = ?9, @only_topics = ?10, @destinations = ?11, @only_destinations = ?12"),
        ("count_up_to", "SELECT COUNT_BIG(*) FROM (SELECT TOP (?2) 1 AS one FROM {t}{past} WHERE"),
        ("bytes", "CAST(LEN(payload + N'.') - 1 AS bigint)"),
        ("failures", "{t}_failures AS f{past} JOIN {t} AS m{past} ON m.seq = f.seq"),
        ("updateability", "CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60))"),
    ],
    schema: concat!(include_str!("schema/0001_init.sql"), "\n", include_str!("schema/0001_procedures.sql")),
    schema_each: Some(include_str!("schema/0001_each.sql")),
    create_schema: Some("IF SCHEMA_ID(N'{schema}') IS NULL\n    EXEC (N'CREATE SCHEMA {schema}');\nGO\n\n"),
    secure: None,
    schema_drop: Some(include_str!("schema/0001_drop.sql")),
    schema_version: 1,
    steps: &Steps::NONE,
    // `state + 0`: with `state = 1` the index of leased rows would cover a settle, and all of it might be scanned and
    // locked.
    fence: Fence {
        one: "state + 0 = 1 AND owner = ?2 AND claim_no = ?3",
        each: Some("state + 0 = 1 AND owner = a.o AND claim_no = a.c"),
    },
    outbox: Identity::outbox("id, message_id, destination, CAST(NULL AS bigint) AS last_seen_at"),
    inbox: Identity { destination: "N''", ..Identity::INBOX },
    insert_many: InsertMany::Answered {
        sql: "INSERT INTO {t} ({new}) OUTPUT inserted.id
             SELECT {new_listed} FROM (VALUES {each|({new_marks})|, }) AS a ({new})
             WHERE NOT EXISTS (SELECT 1 FROM {t} AS b WITH (READCOMMITTEDLOCK) WHERE b.id = a.id)",
        // Each value is a numbered parameter; a server takes at most 2,100 of them.
        all_new: None,
        sizes: &[150, 50],
        null: Some(" "),
    },
    claim: Claim::AtOnce {
        take: Lines { all: "{claim}", topics: "{claim_of}", suspects: "{claim_of}, @suspects = 1" },
        look: "SELECT (SELECT MIN(visible_at) FROM {t}{past} WHERE state = 0 AND crashes = 0 AND visible_at >= ?2),
                    (SELECT MIN(visible_at) FROM {t}{past} WHERE state = 1 AND visible_at >= ?3),
                    (SELECT MIN(expires_at) FROM {t}{past} WHERE state = 0 AND expires_at BETWEEN ?4 AND ?1)",
        take_or_look: None,
    },
    many: Some(ManySql {
        ack_many: "UPDATE {t}
             SET state = 2, processed_by = owner, owner = NULL, locked_until = NULL, visible_at = NULL,
                 processed_at = ?2
             WHERE {in_leases} {fence_each})",
        save_many: "UPDATE {t} SET {saved_each} FROM (VALUES {each|({saved_marks})|, }) AS a ({saved_names})
             WHERE seq = a.v1 AND claim_no = a.v2 AND state + 0 = {was_each}",
        load_leases: "SELECT {bare} FROM {t}{locked} WHERE {in_leases} {fence_each}) ORDER BY seq",
        failure_add_many: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
             SELECT a.seq, a.at, a.attempt, a.worker, a.error, a.code
             FROM (VALUES {each|(?, ?, ?, ?, ?, ?)|, }) AS a (seq, at, attempt, worker, error, code)",
        failure_trim_many: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
                 SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
                 FROM {t}_failures AS f WHERE f.seq IN ({list|?|, })) AS ranked WHERE ranked.place > ?1)",
    }),
    ack_ranges: None,
    extend: Extend::Answered(
        "UPDATE {t} SET locked_until = ?2, visible_at = ?2 OUTPUT inserted.seq, inserted.claim_no, 1
         WHERE {in_leases} state + 0 = 1 AND owner = a.o AND claim_no = a.c)",
    ),
    runs: None,
    checks_saves: true,
    queue: QueueSql {
        topics_next: "SELECT MIN(waiting.at) FROM (
                 SELECT MIN(visible_at) AS at FROM {t}{past}
                 WHERE state = 0 AND crashes = 0 AND visible_at >= ?5 AND {among}
                 UNION ALL SELECT MIN(visible_at) FROM {t}{past} WHERE state = 1) AS waiting",
        suspects_next: "SELECT MIN(visible_at) FROM {t}{past} WHERE state = 0 AND crashes > 0 AND {among}",
        load_lease: "SELECT {bare} FROM {t}{locked} WHERE seq = ?1 AND {fence}",
        load_over: "SELECT TOP (?2) {bare} FROM {t}{locked_past}
             WHERE state = 1 AND visible_at <= ?1 ORDER BY visible_at, seq",
        load_expired: "SELECT TOP (?2) {bare} FROM {t}{locked_past}
             WHERE state = 0 AND expires_at <= ?1 ORDER BY expires_at, seq",
        load_key: "SELECT {record} FROM {t}{locked} WHERE {key}",
        list: "SELECT TOP (?5) {record} FROM {t} WHERE (?7 IS NULL OR state = ?7) AND {filter}
             ORDER BY seq OPTION (RECOMPILE)",
        save: "UPDATE {t} SET {saved} WHERE seq = ?1 AND claim_no = ?2 AND state = {was}",
        expire_dead: "DECLARE @late TABLE (seq bigint NOT NULL PRIMARY KEY);
             INSERT INTO @late (seq)
             SELECT TOP (?2) seq FROM {t}{locked_past} WHERE state = 3 AND expires_at <= ?1 ORDER BY expires_at, seq;
             UPDATE {t} SET state = 4, processed_at = ?1
             WHERE seq IN (SELECT late.seq FROM @late AS late) AND state = 3 OPTION (LOOP JOIN)",
        count_overdue: "{count_up_to} state = 0 AND expires_at <= ?1) AS found",
        count_purgeable: "{count_up_to} state = 2 AND processed_at < ?1) AS found",
        failure_trim: "DELETE FROM {t}_failures WHERE seq = ?1 AND no NOT IN (
                 SELECT TOP (?2) young.no FROM {t}_failures AS young WHERE young.seq = ?1 ORDER BY young.no DESC)",
        audit_list: "SELECT TOP (?1) at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC",
        count_to: "{count_up_to} state = 0 AND NOT ({here}) AND {destination} = ?1) AS found",
        count_of: "{count_up_to} state = 0 AND {here} AND topic = ?1) AS found",
        count: "SELECT 0, COUNT_BIG(*) FROM {t}{past} WHERE state = 0
             UNION ALL SELECT 1, COUNT_BIG(*) FROM {t}{past} WHERE state = 1
             UNION ALL SELECT 2, COUNT_BIG(*) FROM {t}{past} WHERE state = 2
             UNION ALL SELECT 3, COUNT_BIG(*) FROM {t}{past} WHERE state = 3
             UNION ALL SELECT 4, COUNT_BIG(*) FROM {t}{past} WHERE state = 4
             UNION ALL SELECT 7, COUNT_BIG(*) FROM {t}{past} WHERE state = 7",
        count_waiting: "SELECT (SELECT COUNT_BIG(*) FROM {t}{past} WHERE state = 0)
                    + (SELECT COUNT_BIG(*) FROM {t}{past} WHERE state = 1)",
        oldest: "SELECT TOP (1) created_at, visible_at FROM {t}{past} WHERE state = 0 ORDER BY visible_at, seq",
        // A message is one row, which stands in one place.
        misplaced: "SELECT CAST(0 AS bigint)",
        ..shared::QUEUE
    },
    in_state: InStateSql {
        // The planner learns each time which values are null.
        list: "SELECT TOP (?5) {listed} FROM {t} WHERE state = {state} AND {filter} ORDER BY seq OPTION (RECOMPILE)",
        nth_newest: "SELECT seq FROM {t} WHERE state = {state} ORDER BY seq DESC OFFSET ?1 ROWS FETCH NEXT 1 ROWS ONLY",
        // Compared letter by letter.
        groups: "SELECT topic, party, error, COUNT_BIG(*), MIN(processed_at), MAX(processed_at), MIN(seq)
             FROM (SELECT topic, {party} AS party, {error} COLLATE Latin1_General_100_BIN2 AS error, processed_at, seq
                   FROM {t}{past} WHERE state = {state} AND seq >= ?1) AS looked_at
             GROUP BY topic, party, error",
        ahead: "SELECT TOP (?3) seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at,
                    visible_at
             FROM {t}{past} WHERE state = {state} AND visible_at >= ?1 AND (visible_at > ?1 OR seq > ?2)
             ORDER BY visible_at, seq",
    },
    purge: PurgeTexts {
        // The rows are chosen once, for both tables.
        rows: "DECLARE @old TABLE (seq bigint NOT NULL PRIMARY KEY);
             INSERT INTO @old (seq)
             SELECT TOP (?2) seq FROM {t}{locked_past} WHERE {old} ORDER BY {age}, seq;
             DELETE FROM {t}_failures WHERE seq IN (SELECT old.seq FROM @old AS old) OPTION (LOOP JOIN);
             DELETE FROM {t} WHERE seq IN (SELECT old.seq FROM @old AS old) OPTION (LOOP JOIN)",
        reclaim: None,
        ended: shared::ENDED,
        seen: shared::SEEN,
    },
    questions: questions::QUESTIONS,
    outbox_insert: "INSERT INTO {t} ({new}) SELECT {new_values} {if_new}",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    inbox_alone: InboxSql {
        insert: INBOX_INSERT,
        accept: INBOX_INSERT,
        see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at) SELECT ?1, ?2, ?3, ?4, ?4 {if_new}",
        count: "SELECT state, COUNT_BIG(*) FROM {t} WHERE state IN (5, 6) GROUP BY state",
        size: "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE (SELECT SUM(p.rows) FROM sys.partitions AS p
                 WHERE p.object_id = OBJECT_ID(N'{t}') AND p.index_id IN (0, 1)) END
             FROM (SELECT COUNT_BIG(*) AS n FROM (SELECT TOP (100000) 1 AS one FROM {t}{past}) AS seen) AS few",
        mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at) SELECT ?1, ?2, ?3, ?4, ?5
             WHERE NOT EXISTS (SELECT 1 FROM {t}_marks WITH (READCOMMITTEDLOCK)
                               WHERE source = ?1 AND message_id = ?2 AND handler = ?3)",
        marks_purge: "DELETE FROM {t}_marks WHERE seq IN (
                 SELECT TOP (?3) old.seq FROM {t}_marks AS old{locked_past}
                 WHERE old.handler = ?1 AND old.marked_at < ?2 ORDER BY old.marked_at)",
        payloads_until: "SELECT MAX(processed_at) FROM (
                 SELECT TOP (?3) processed_at FROM {t} WHERE state = 2 AND processed_at > ?1 AND processed_at <= ?2
                 ORDER BY processed_at) AS next",
        payloads_drop: "UPDATE {t} SET payload = NULL, dropped_at = ?3
             WHERE state = 2 AND processed_at > ?1 AND processed_at <= ?2 AND {large}",
        ..shared::INBOX
    },
    accept_seen: Some(shared::ACCEPT_SEEN),
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
             INSERT INTO {t} ({new}, state, last_attempt_at, locked_until, owner, claim_no)
             SELECT {new_values}, 1, {@created_at}, {@visible_at}, {@owner}, 1 {if_new};
             IF @@ROWCOUNT = 1
                 SET @seq = CAST(SCOPE_IDENTITY() AS bigint);
         END;
         SELECT CASE WHEN @free = -1 THEN 0 ELSE 1 END, @seq",
    ),
    idle_poll: Some(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM {outbox}{past}
                               WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?2 AND ?1)
                       OR EXISTS (SELECT 1 FROM {outbox}{past} WHERE state = 1 AND visible_at BETWEEN ?4 AND ?1)
                  THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {inbox}{past}
                               WHERE state = 0 AND crashes = 0 AND visible_at BETWEEN ?3 AND ?1)
                       OR EXISTS (SELECT 1 FROM {inbox}{past} WHERE state = 1 AND visible_at BETWEEN ?5 AND ?1)
                  THEN 1 ELSE 0 END,
                CASE WHEN {updateability} = N'READ_ONLY' THEN 1 ELSE 0 END",
    ),
};

const INBOX_INSERT: &str = "INSERT INTO {t} ({new}, state) SELECT {new_values}, 0 {if_new}";

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
