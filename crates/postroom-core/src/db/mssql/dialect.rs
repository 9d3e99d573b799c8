//! SQL Server, and what speaks its language. A row that is read to be written is locked on the way; rows that others
//! hold are passed over. The claim is a procedure of the schema, so that it is one trip; lists of leases travel as
//! JSON. MERGE is not used: it is not safe under concurrency without locks on ranges.

#[macro_use]
mod words;

mod questions;
mod session;

pub(crate) use session::{
    BATCH_END, BEGIN, BEGIN_HANDLER, COMMIT, DEPTH, FORGIVING, HELLO, ROLL_BACK, ROW_COUNT, SETTINGS, STATE,
};

use crate::sql::dialect::{Batch, Dialect, Fence, Identity, QueueSql, UNUSED};
use crate::sql::purge::{Old, PurgeTexts};
use crate::sql::text::Places;

pub(crate) const MSSQL: Dialect = Dialect {
    places: Places::Numbered,
    batch: Batch::Lists,
    schema: concat!(include_str!("schema/0001_init.sql"), "\n", include_str!("schema/0001_procedures.sql")),
    schema_each: include_str!("schema/0001_each.sql"),
    create_schema: "IF SCHEMA_ID(N'{schema}') IS NULL\n    EXEC (N'CREATE SCHEMA {schema}');\nGO\n\n",
    schema_drop: include_str!("schema/0001_drop.sql"),
    schema_version: 1,
    schema_read: "SELECT version FROM {s}postroom_schema WHERE outbox = @P1 AND inbox = @P2",
    maintenance_take: "UPDATE {s}postroom_schema SET maintained_at = @P3
         WHERE outbox = @P1 AND inbox = @P2 AND (maintained_at <= @P4 OR maintained_at > @P5)",
    // `state + 0`: with `state = 1` the index of leased rows covers a settle, and all of it may be scanned and locked.
    fence: Fence {
        one: "state + 0 = 1 AND owner = @P2 AND claim_no = @P3",
        each: "state + 0 = 1 AND owner = a.o AND claim_no = a.c",
    },
    message: "seq, claim_no, attempts, crashes, max_attempts, due_at, created_at, expires_at, last_error,
         correlation_id, headers, kind, topic, payload, {identity}",
    record: "{message}, state, next_attempt_at, owner, locked_until, last_attempt_at, processed_at, processed_by,
         response, dismissed_by, dismissed_why",
    brief: "seq, attempts, processed_at, expires_at, SUBSTRING(last_error, 1, {error_chars}), topic, {identity},
         {party}, state, claim_no, due_at, created_at, dismissed_by, dismissed_why",
    queue: QUEUE,
    purge: PURGE,
    questions: questions::QUESTIONS,
    outbox: Identity {
        columns: "id, message_id, destination, CAST(NULL AS bigint) AS last_seen_at",
        key: "id = @P1",
        party: "destination",
        here: "destination IS NULL",
        destination: "destination",
    },
    inbox: Identity {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = @P1 AND message_id = @P2",
        party: "source",
        here: "1 = 1",
        destination: "N''",
    },
    // Who looks for the row waits for a twin that is just writing it.
    outbox_insert: "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         SELECT @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12, @P13
         WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE id = @P1)",
    // A blank stands for null.
    outbox_insert_batch: "INSERT INTO {t}
             (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
              expires_at, max_attempts, created_at)
         OUTPUT inserted.id
         SELECT a.id, a.message_id, a.kind, a.topic, a.payload, NULLIF(a.destination, N' '), NULLIF(a.headers, N' '),
                NULLIF(a.correlation_id, N' '), a.visible_at, a.due_at, a.expires_at, a.max_attempts, @P1
         FROM (VALUES {each|(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)|, })
              AS a (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
                    expires_at, max_attempts)
         WHERE NOT EXISTS (SELECT 1 FROM {t} AS b WITH (READCOMMITTEDLOCK) WHERE b.id = a.id)",
    inbox_insert: INBOX_INSERT,
    inbox_accept: INBOX_INSERT,
    inbox_accept_seen: "UPDATE {t}
         SET kind = @P3, topic = @P4, payload = @P5, hash = @P6, headers = @P7, correlation_id = @P8, state = 0,
             visible_at = @P9, due_at = @P10, max_attempts = @P11, last_seen_at = @P12, expires_at = @P13
         WHERE {key} AND state = 5",
    // A twin's transaction holds the lock: nobody waits for it. Its name is as long as it may be, from the end; the
    // length of the source tells a/b and c from a and b/c. Babelfish says -999 where it is held, as SQL Server does
    // when something is wrong.
    inbox_arrive: "DECLARE @free int, @seq bigint, @twin nvarchar(255) = N'{t}/' + RIGHT(
             CAST(LEN(@P1) AS nvarchar(9)) + N'/' + @P1 + N'/' + @P2, 254 - LEN(N'{t}'));
         EXEC @free = sp_getapplock @Resource = @twin, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
                                    @LockTimeout = 0;
         IF @free = -999 AND APPLOCK_TEST(N'public', @twin, N'Exclusive', N'Transaction') = 0
             SET @free = -1;
         IF @free < -1
             THROW 51006, N'the lock of an arriving message could not be asked for', 1;
         IF @free >= 0
         BEGIN
             INSERT INTO {t}
                 (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
                  max_attempts, created_at, last_seen_at, expires_at, last_attempt_at, locked_until, owner, claim_no)
             SELECT @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, 1, @P9, @P10, @P11, @P12, @P12, @P13, @P12, @P9, @P14, 1
             WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key});
             IF @@ROWCOUNT = 1
                 SET @seq = CAST(SCOPE_IDENTITY() AS bigint);
         END;
         SELECT CASE WHEN @free = -1 THEN 0 ELSE 1 END, @seq",
    inbox_arrive_look: UNUSED,
    inbox_arrive_seq: UNUSED,
    inbox_handled: UNUSED,
    inbox_see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at)
         SELECT @P1, @P2, @P3, @P4, @P4 WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key})",
    inbox_touch: "UPDATE {t} SET last_seen_at = @P2, hash = COALESCE(hash, @P3) WHERE seq = @P1",
    inbox_content: "UPDATE {t}
         SET kind = @P2, topic = @P3, payload = @P4, hash = @P5, headers = @P6, correlation_id = @P7,
             last_seen_at = @P8, max_attempts = @P9
         WHERE seq = @P1",
    inbox_begin: "UPDATE {t} SET state = 6, attempts = attempts + 1, last_attempt_at = @P2
         WHERE seq = @P1 AND state IN (5, 6)",
    inbox_count: "SELECT state, COUNT_BIG(*) FROM {t} WHERE state IN (5, 6) GROUP BY state",
    inbox_size: concat!(
        "SELECT CASE WHEN few.n < 100000 THEN few.n ELSE (SELECT SUM(p.rows) FROM sys.partitions AS p
             WHERE p.object_id = OBJECT_ID(N'{t}') AND p.index_id IN (0, 1)) END
         FROM (SELECT COUNT_BIG(*) AS n FROM (SELECT TOP (100000) 1 AS one FROM {t}",
        past!(),
        ") AS seen) AS few"
    ),
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = @P1
         UNION ALL SELECT {record} FROM {t} WHERE message_id = @P1 AND id <> @P1 ORDER BY seq",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, topic, marked_at)
         SELECT @P1, @P2, @P3, @P4, @P5
         WHERE NOT EXISTS (SELECT 1 FROM {t}_marks WITH (READCOMMITTEDLOCK)
                           WHERE source = @P1 AND message_id = @P2 AND handler = @P3)",
    mark_find: "SELECT marked_at, topic FROM {t}_marks WHERE source = @P1 AND message_id = @P2 AND handler = @P3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = @P1 AND message_id = @P2 AND handler = @P3 AND marked_at = @P4",
    marks_purge: "DELETE FROM {t}_marks WHERE seq IN (
             SELECT TOP (@P3) old.seq FROM {t}_marks AS old WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
             WHERE old.handler = @P1 AND old.marked_at < @P2 ORDER BY old.marked_at)",
    idle_poll: concat!(
        "SELECT CASE WHEN ",
        any!("{outbox}", "state = 0 AND crashes = 0 AND visible_at BETWEEN @P2 AND @P1"),
        " OR ",
        any!("{outbox}", "state = 1 AND visible_at BETWEEN @P4 AND @P1"),
        " THEN 1 ELSE 0 END, CASE WHEN ",
        any!("{inbox}", "state = 0 AND crashes = 0 AND visible_at BETWEEN @P3 AND @P1"),
        " OR ",
        any!("{inbox}", "state = 1 AND visible_at BETWEEN @P5 AND @P1"),
        " THEN 1 ELSE 0 END, CASE WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60))
         = N'READ_ONLY' THEN 1 ELSE 0 END"
    ),
};

const INBOX_INSERT: &str = "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at, expires_at)
         SELECT @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, 0, @P9, @P10, @P11, @P12, @P12, @P13
         WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key})";

const QUEUE: QueueSql = QueueSql {
    // The first that is ready, the first lease that ends, and the first message that is past its time.
    claim_look: concat!(
        "SELECT (SELECT MIN(visible_at) FROM {t}",
        past!(),
        " WHERE state = 0 AND crashes = 0 AND visible_at >= @P2), (SELECT MIN(visible_at) FROM {t}",
        past!(),
        " WHERE state = 1 AND visible_at >= @P3), (SELECT MIN(expires_at) FROM {t}",
        past!(),
        " WHERE state = 0 AND expires_at BETWEEN @P4 AND @P1)"
    ),
    claim_select: UNUSED,
    claim_line: "EXEC {t}_claim @now = @P1, @batch_size = @P2, @owner_token = @P3, @until = @P4, @above = @P5,
                               @bytes = @P6, @least = @P7",
    claim_one: UNUSED,
    claim_next: UNUSED,
    topics_select: UNUSED,
    topics_line: "EXEC {t}_claim @now = @P1, @batch_size = @P2, @owner_token = @P3, @until = @P4, @above = @P5,
                                @bytes = @P6, @least = @P7, @topics = @P8, @only_topics = @P9, @destinations = @P10,
                                @only_destinations = @P11",
    topics_next: concat!(
        "SELECT MIN(waiting.at) FROM (
             SELECT MIN(visible_at) AS at FROM {t}",
        past!(),
        " WHERE state = 0 AND crashes = 0 AND visible_at >= @P5 AND ",
        among!(),
        " UNION ALL SELECT MIN(visible_at) FROM {t}",
        past!(),
        " WHERE state = 1) AS waiting"
    ),
    suspects_select: UNUSED,
    suspects_line: "EXEC {t}_claim @now = @P1, @batch_size = @P2, @owner_token = @P3, @until = @P4, @above = @P5,
                                @bytes = @P6, @least = @P7, @topics = @P8, @only_topics = @P9, @destinations = @P10,
                                @only_destinations = @P11, @suspects = 1",
    suspects_next: concat!(
        "SELECT MIN(visible_at) FROM {t}",
        past!(),
        " WHERE state = 0 AND crashes > 0 AND ",
        among!()
    ),
    ack: "UPDATE {t}
         SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = @P4, processed_by = @P2,
             response = COALESCE(@P5, response)
         WHERE seq = @P1 AND {fence}",
    ack_batch: concat!(
        "UPDATE {t}
         SET state = 2, processed_by = owner, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = @P2",
        in_leases!("{fence_each}")
    ),
    extend: UNUSED,
    extend_batch: concat!(
        "UPDATE {t} SET locked_until = @P2, visible_at = @P2 OUTPUT inserted.seq, inserted.claim_no",
        in_leases!("state + 0 = 1 AND owner = a.o AND claim_no = a.c")
    ),
    held: "SELECT 1 FROM {t} WHERE seq = @P1 AND {fence}",
    load_lease: "SELECT {bare} FROM {t} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK) WHERE seq = @P1 AND {fence}",
    load_leases: concat!(
        "SELECT {bare} FROM {t} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)",
        in_leases!("{fence_each}"),
        " ORDER BY seq"
    ),
    load_claimed: "SELECT {record} FROM {t} WHERE state = 1 AND visible_at = @P1 AND owner = @P2 ORDER BY seq",
    load_over: "SELECT TOP (@P2) {bare} FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE state = 1 AND visible_at <= @P1 ORDER BY visible_at, seq",
    load_expired: "SELECT TOP (@P2) {bare} FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE state = 0 AND expires_at <= @P1 ORDER BY expires_at, seq",
    load_key: "SELECT {record} FROM {t} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK) WHERE {key}",
    find_key: "SELECT {record} FROM {t} WHERE {key}",
    list: "SELECT TOP (@P6) {record} FROM {t}
         WHERE (@P1 IS NULL OR state = @P1) AND (@P2 IS NULL OR topic = @P2) AND (@P3 IS NULL OR {party} = @P3)
           AND (@P4 IS NULL OR processed_at >= @P4) AND seq > @P5 AND seq <= @P7
         ORDER BY seq OPTION (RECOMPILE)",
    list_done: list_in!("{record}", "2"),
    list_dead: list_in!("{record}", "3"),
    list_expired: list_in!("{record}", "4"),
    list_dismissed: list_in!("{record}", "7"),
    list_rows: "SELECT {record} FROM {t} WHERE seq IN ({each|?|, })",
    brief_done: list_in!("{brief}", "2"),
    brief_dead: list_in!("{brief}", "3"),
    brief_expired: list_in!("{brief}", "4"),
    brief_dismissed: list_in!("{brief}", "7"),
    brief_rows: "SELECT {brief} FROM {t} WHERE seq IN ({each|?|, })",
    put_back: "UPDATE {t}
         SET state = @P4, visible_at = @P5, next_attempt_at = @P6, attempts = @P7, crashes = @P8, processed_at = @P9,
             expires_at = @P10, processed_by = NULL, response = NULL
         WHERE seq = @P1 AND claim_no = @P2 AND state = @P3",
    dismiss: "UPDATE {t}
         SET state = 7, visible_at = NULL, processed_at = @P4, dismissed_by = @P5, dismissed_why = @P6
         WHERE seq = @P1 AND claim_no = @P2 AND state = @P3",
    expire_dead: "DECLARE @late TABLE (seq bigint NOT NULL PRIMARY KEY);
         INSERT INTO @late (seq)
         SELECT TOP (@P2) seq FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE state = 3 AND expires_at <= @P1 ORDER BY expires_at, seq;
         UPDATE {t} SET state = 4, processed_at = @P1
         WHERE seq IN (SELECT late.seq FROM @late AS late) AND state = 3 OPTION (LOOP JOIN)",
    nth_newest_dead: nth_newest!("3"),
    nth_newest_expired: nth_newest!("4"),
    groups_dead: groups_in!("3"),
    groups_expired: groups_in!("4"),
    count_overdue: count_up_to!("state = 0 AND expires_at <= @P1"),
    count_purgeable: count_up_to!("state = 2 AND processed_at < @P1"),
    save: "UPDATE {t}
         SET state = @P3, visible_at = @P4, due_at = @P5, next_attempt_at = @P6, attempts = @P7, crashes = @P8,
             claim_no = @P9, owner = @P10, locked_until = @P11, last_error = @P12, processed_at = @P13,
             processed_by = @P14, expires_at = @P15, response = @P16
         WHERE seq = @P1 AND claim_no = @P2 AND state = @P17",
    save_batch: "UPDATE {t}
         SET state = a.v3, visible_at = a.v4, due_at = a.v5, next_attempt_at = a.v6, attempts = a.v7, crashes = a.v8,
             claim_no = a.v9, owner = a.v10, locked_until = a.v11, last_error = a.v12, processed_at = a.v13,
             processed_by = a.v14, expires_at = a.v15, response = a.v16
         FROM (VALUES {each|(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)|, })
              AS a (v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15, v16, v17)
         WHERE seq = a.v1 AND claim_no = a.v2 AND state + 0 = a.v17",
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         VALUES (@P1, @P2, @P3, @P4, @P5, @P6)",
    failure_add_batch: "INSERT INTO {t}_failures (seq, at, attempt, worker, error, code)
         SELECT a.seq, a.at, a.attempt, a.worker, a.error, a.code
         FROM (VALUES {each|(?, ?, ?, ?, ?, ?)|, }) AS a (seq, at, attempt, worker, error, code)",
    failure_trim_batch: "DELETE FROM {t}_failures WHERE no IN (SELECT ranked.no FROM (
             SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
             FROM {t}_failures AS f WHERE f.seq IN ({each|?|, })) AS ranked WHERE ranked.place > @P1)",
    failure_trim: "DELETE FROM {t}_failures WHERE seq = @P1 AND no NOT IN (
             SELECT TOP (@P2) young.no FROM {t}_failures AS young WHERE young.seq = @P1 ORDER BY young.no DESC)",
    failure_list: "SELECT at, attempt, worker, error, code FROM {t}_failures WHERE seq = @P1 ORDER BY no",
    hold_remove: "DELETE FROM {t}_holds
         WHERE kind = @P1 AND name = @P2 AND owner = @P3 OR tried_at < @P4",
    hold_add: "INSERT INTO {t}_holds (kind, name, owner, since, tried_at, code, why)
         VALUES (@P1, @P2, @P3, @P4, @P5, @P6, @P7)",
    hold_list: "SELECT kind, name, since, tried_at, code, why FROM {t}_holds ORDER BY kind, name",
    audit_more: "UPDATE {t}_audit SET messages = messages + @P3 WHERE act = @P1 AND what = @P2",
    audit_add: "INSERT INTO {t}_audit (act, what, messages, at, who, why, chosen)
         VALUES (@P1, @P2, @P3, @P4, @P5, @P6, @P7)",
    audit_list: "SELECT TOP (@P1) at, what, messages, who, why, chosen FROM {t}_audit ORDER BY at DESC, act DESC",
    count_to: count_up_to!("state = 0 AND NOT ({here}) AND {destination} = @P1"),
    count_of: count_up_to!("state = 0 AND {here} AND topic = @P1"),
    count: concat!(
        count_in!("0"),
        " UNION ALL ",
        count_in!("1"),
        " UNION ALL ",
        count_in!("2"),
        " UNION ALL ",
        count_in!("3"),
        " UNION ALL ",
        count_in!("4"),
        " UNION ALL ",
        count_in!("7")
    ),
    count_waiting: concat!(
        "SELECT (SELECT COUNT_BIG(*) FROM {t}",
        past!(),
        " WHERE state = 0) + (SELECT COUNT_BIG(*) FROM {t}",
        past!(),
        " WHERE state = 1)"
    ),
    oldest: concat!(
        "SELECT TOP (1) created_at, visible_at FROM {t}",
        past!(),
        " WHERE state = 0 ORDER BY visible_at, seq"
    ),
    ahead_leased: concat!(
        "SELECT TOP (@P3) seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t}",
        past!(),
        " WHERE state = 1 AND visible_at >= @P1 AND (visible_at > @P1 OR seq > @P2) ORDER BY visible_at, seq"
    ),
    ahead_ready: concat!(
        "SELECT TOP (@P3) seq, claim_no, created_at, due_at, next_attempt_at, locked_until, last_attempt_at, visible_at
         FROM {t}",
        past!(),
        " WHERE state = 0 AND visible_at >= @P1 AND (visible_at > @P1 OR seq > @P2) ORDER BY visible_at, seq"
    ),
    ahead_set: "UPDATE {t}
         SET visible_at = @P4, next_attempt_at = @P5, locked_until = @P6, last_attempt_at = @P7,
             created_at = @P8
         WHERE seq = @P1 AND claim_no = @P2 AND state = @P3 AND visible_at = @P9",
};

const PURGE: PurgeTexts = PurgeTexts {
    failures: UNUSED,
    // The rows are chosen once, for both tables.
    rows: "DECLARE @old TABLE (seq bigint NOT NULL PRIMARY KEY);
         INSERT INTO @old (seq)
         SELECT TOP (@P2) seq FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE {old} ORDER BY {age}, seq;
         DELETE FROM {t}_failures WHERE seq IN (SELECT old.seq FROM @old AS old) OPTION (LOOP JOIN);
         DELETE FROM {t} WHERE seq IN (SELECT old.seq FROM @old AS old) OPTION (LOOP JOIN)",
    ended: Old { rows: "state = {state} AND processed_at < @P1", age: "processed_at" },
    seen: Old { rows: "state = {state} AND last_seen_at < @P1", age: "last_seen_at" },
};

/// For a test only: a settle that does not ask who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(@P2 IS NOT NULL OR @P3 IS NOT NULL)", each: "a.o IS NOT NULL" };
