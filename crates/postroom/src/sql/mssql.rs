//! SQL Server, and what speaks its language. A row that is read to be written is locked on the way; rows that others
//! hold are passed over. The claim is a procedure of the schema, so that it is one trip; lists of leases travel as
//! JSON. MERGE is not used: it is not safe under concurrency without locks on ranges.

use crate::sql::dialect::{Batch, Dialect, Fence, Identity, Texts, UNUSED};
use crate::sql::text::Places;

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME())"
    };
}

/// What every transaction of ours begins with, whatever was said on the connection before: handlers may say anything.
/// An error that nobody looks at must not leave half of a transaction.
macro_rules! settings {
    () => {
        "SET IMPLICIT_TRANSACTIONS OFF; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET XACT_ABORT ON;
         SET NOCOUNT OFF; SET ROWCOUNT 0; "
    };
}

/// The name of the lock that goes with a handler's transaction.
macro_rules! handlers_lock {
    () => {
        "N'postroom_handler_' + CAST(@@SPID AS nvarchar(9))"
    };
}

/// Rows in one finished state. The state is in the text: the index of that state alone serves no other.
macro_rules! list_in {
    ($state:literal) => {
        concat!(
            "SELECT TOP (@P6) {record} FROM {t} WHERE state = ",
            $state,
            " AND (@P1 IS NULL OR state = @P1)
               AND (@P2 IS NULL OR topic = @P2) AND (@P3 IS NULL OR {party} = @P3)
               AND (@P4 IS NULL OR processed_at >= @P4) AND (@P5 IS NULL OR seq > @P5)
             ORDER BY seq"
        )
    };
}

/// The rows that a purge removes.
macro_rules! purged {
    () => {
        "(SELECT TOP (@P2) old.seq FROM {t} AS old WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
          WHERE old.state = 2 AND old.processed_at < @P1 ORDER BY old.processed_at, old.seq)"
    };
}

/// A row that is in a batch of leases. The table is named once: where it is joined with itself, a server may look at a
/// row as it was before somebody else changed it.
macro_rules! in_leases {
    ($fence:literal) => {
        concat!(
            " WHERE EXISTS (SELECT 1 FROM OPENJSON(@P1)
                       WITH (n bigint '$.n', o uniqueidentifier '$.o', c bigint '$.c') AS a
                       WHERE a.n = seq AND ",
            $fence,
            ")"
        )
    };
}

/// What a connection is told when it is new.
pub(crate) const SETTINGS: &str = settings!();
/// Begins one of our own transactions and answers with the server's time: one trip.
pub(crate) const BEGIN: &str = concat!(settings!(), "BEGIN TRANSACTION; SELECT ", clock!());
/// Begins a handler's transaction. A deadlock rolls it back as a whole: then the lock is gone, and what a handler that
/// overlooked it writes next is in a transaction that was begun for it, and must not be committed.
pub(crate) const BEGIN_HANDLER: &str = concat!(
    settings!(),
    "BEGIN TRANSACTION;
     DECLARE @mark nvarchar(255) = ",
    handlers_lock!(),
    ";
     EXEC sp_getapplock @Resource = @mark, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 0;
     SET IMPLICIT_TRANSACTIONS ON"
);
/// Whether the transaction is still the one that was begun.
pub(crate) const IS_OPEN: &str = concat!(
    "SELECT CASE WHEN XACT_STATE() = 1 AND APPLOCK_MODE(N'public', ",
    handlers_lock!(),
    ", N'Transaction') = N'Exclusive' THEN 1 ELSE 0 END"
);
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLL_BACK: &str = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION";
/// Follows a statement whose rows are counted: a client may have told the server not to.
pub(crate) const ROW_COUNT: &str = "; SELECT CAST(@@ROWCOUNT AS bigint)";
/// Around a statement that may find its row there already: then only the statement fails, and the transaction goes on.
pub(crate) const FORGIVING: [&str; 2] = ["SET XACT_ABORT OFF; ", "; SET XACT_ABORT ON"];
/// Whether a transaction can still be committed: 1.
pub(crate) const STATE: &str = "SELECT CAST(XACT_STATE() AS int)";
/// What a server must say of itself before we trust it: its time, whether it takes writes, its version and edition, how
/// old a version of itself the database keeps to.
pub(crate) const HELLO: &str = concat!(
    "SELECT ",
    clock!(),
    ", CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)),
     CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(60)), CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(9)),
     (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE name = DB_NAME()), @@VERSION"
);
/// Ends a batch in the schema's text.
pub(crate) const BATCH_END: &str = "\nGO\n";

pub(crate) const MSSQL: Dialect = Dialect {
    places: Places::Numbered,
    batch: Batch::Lists,
    schema: concat!(
        include_str!("../../schema/mssql/0001_init.sql"),
        "\n",
        include_str!("../../schema/mssql/0001_procedures.sql")
    ),
    create_schema: "IF SCHEMA_ID(N'{schema}') IS NULL\n    EXEC (N'CREATE SCHEMA {schema}');\nGO\n\n",
    schema_version: 1,
    schema_read: "SELECT version FROM {s}postroom_schema WHERE outbox = @P1 AND inbox = @P2",
    maintenance_take: "UPDATE {s}postroom_schema SET maintained_at = @P3
         WHERE outbox = @P1 AND inbox = @P2 AND maintained_at <= @P4",
    fence: Fence {
        one: "state = 1 AND owner = @P2 AND claim_no = @P3",
        each: "state = 1 AND owner = a.o AND claim_no = a.c",
    },
    message: "seq, claim_no, attempts, crashes, max_attempts, due_at, created_at, expires_at, last_error,
         correlation_id, headers, kind, topic, payload, {identity}",
    record: "{message}, state, next_attempt_at, owner, locked_until, last_attempt_at, processed_at, processed_by,
         response",
    queue: QUEUE,
    outbox: Identity {
        columns: "id, message_id, destination, CAST(NULL AS bigint)",
        key: "id = @P1",
        party: "destination",
    },
    inbox: Identity {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = @P1 AND message_id = @P2",
        party: "source",
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
             visible_at = @P9, due_at = @P10, max_attempts = @P11, last_seen_at = @P12
         WHERE {key} AND state = 5",
    // A twin's transaction holds the lock: nobody waits for it. Its name is as long as it may be, from the end.
    inbox_arrive: "DECLARE @free int, @seq bigint, @twin nvarchar(255) = RIGHT(@P1 + N'/' + @P2, 255);
         EXEC @free = sp_getapplock @Resource = @twin, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
                                    @LockTimeout = 0;
         IF @free >= 0
         BEGIN
             INSERT INTO {t}
                 (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
                  max_attempts, created_at, last_seen_at, last_attempt_at, locked_until, owner, claim_no)
             SELECT @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, 1, @P9, @P10, @P11, @P12, @P12, @P12, @P9, @P13, 1
             WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key});
             IF @@ROWCOUNT = 1
                 SET @seq = CAST(SCOPE_IDENTITY() AS bigint);
         END;
         SELECT CASE WHEN @free >= 0 THEN 1 ELSE 0 END, @seq",
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
    inbox_count: "SELECT state, COUNT_BIG(*) FROM {t} WHERE state >= 5 GROUP BY state",
    outbox_by_message: "SELECT {record} FROM {t} WHERE id = @P1
         UNION ALL SELECT {record} FROM {t} WHERE message_id = @P1 AND id <> @P1 ORDER BY seq",
    mark_put: "INSERT INTO {t}_marks (source, message_id, handler, marked_at)
         SELECT @P1, @P2, @P3, @P4
         WHERE NOT EXISTS (SELECT 1 FROM {t}_marks WITH (READCOMMITTEDLOCK)
                           WHERE source = @P1 AND message_id = @P2 AND handler = @P3)",
    mark_find: "SELECT marked_at FROM {t}_marks WHERE source = @P1 AND message_id = @P2 AND handler = @P3",
    mark_remove: "DELETE FROM {t}_marks WHERE source = @P1 AND message_id = @P2 AND handler = @P3 AND marked_at = @P4",
    marks_purge: "DELETE FROM {t}_marks WHERE seq IN (
             SELECT TOP (@P3) old.seq FROM {t}_marks AS old WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
             WHERE old.handler = @P1 AND old.marked_at < @P2 ORDER BY old.marked_at)",
    pulse: "SELECT CASE WHEN EXISTS (SELECT 1 FROM {outbox} WHERE state = 0 AND visible_at BETWEEN @P2 AND @P1)
                OR EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND visible_at <= @P1) THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {inbox} WHERE state = 0 AND visible_at BETWEEN @P3 AND @P1)
                OR EXISTS (SELECT 1 FROM {inbox} WHERE state = 1 AND visible_at <= @P1) THEN 1 ELSE 0 END",
};

const INBOX_INSERT: &str = "INSERT INTO {t}
             (source, message_id, kind, topic, payload, hash, headers, correlation_id, state, visible_at, due_at,
              max_attempts, created_at, last_seen_at)
         SELECT @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, 0, @P9, @P10, @P11, @P12, @P12
         WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key})";

const QUEUE: Texts = Texts {
    // Whether leases ran out, and whether messages did: mostly neither.
    claim_look: "SELECT CASE WHEN EXISTS (SELECT 1 FROM {t} WHERE state = 1 AND visible_at <= @P1) THEN 1 ELSE 0 END,
                CASE WHEN EXISTS (SELECT 1 FROM {t} WHERE state = 0 AND expires_at <= @P1) THEN 1 ELSE 0 END",
    claim_select: UNUSED,
    claim_line: "EXEC {t}_claim @now = @P1, @batch_size = @P2, @owner_token = @P3, @until = @P4, @above = @P5",
    claim_below: "SELECT TOP (1) visible_at FROM {t} WHERE state = 0 AND visible_at < @P1 ORDER BY visible_at",
    claim_one: UNUSED,
    claim_next: "SELECT MIN(waiting.at) FROM (
             SELECT MIN(visible_at) AS at FROM {t} WHERE state = 0
             UNION ALL SELECT MIN(visible_at) FROM {t} WHERE state = 1) AS waiting",
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
        "UPDATE {t} SET locked_until = @P2, visible_at = @P2 OUTPUT inserted.seq",
        in_leases!("state = 1 AND owner = a.o AND claim_no = a.c")
    ),
    held: "SELECT 1 FROM {t} WHERE seq = @P1 AND {fence}",
    load_lease: "SELECT {record} FROM {t} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK) WHERE seq = @P1 AND {fence}",
    load_over: "SELECT TOP (@P2) {record} FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE state = 1 AND visible_at <= @P1 ORDER BY visible_at, seq",
    load_expired: "SELECT TOP (@P2) {record} FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
         WHERE state = 0 AND expires_at <= @P1 ORDER BY expires_at, seq",
    load_key: "SELECT {record} FROM {t} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK) WHERE {key}",
    find_key: "SELECT {record} FROM {t} WHERE {key}",
    list: "SELECT TOP (@P6) {record} FROM {t}
         WHERE (@P1 IS NULL OR state = @P1) AND (@P2 IS NULL OR topic = @P2) AND (@P3 IS NULL OR {party} = @P3)
           AND (@P4 IS NULL OR processed_at >= @P4) AND (@P5 IS NULL OR seq > @P5)
         ORDER BY seq",
    list_done: list_in!("2"),
    list_dead: list_in!("3"),
    list_expired: list_in!("4"),
    save: "UPDATE {t}
         SET state = @P3, visible_at = @P4, due_at = @P5, next_attempt_at = @P6, attempts = @P7, crashes = @P8,
             claim_no = @P9, owner = @P10, locked_until = @P11, last_error = @P12, processed_at = @P13,
             processed_by = @P14, expires_at = @P15, response = @P16
         WHERE seq = @P1 AND claim_no = @P2 AND state = @P17",
    purge_failures: concat!("DELETE FROM {t}_failures WHERE seq IN ", purged!()),
    purge: concat!("DELETE FROM {t} WHERE state = 2 AND seq IN ", purged!()),
    failure_add: "INSERT INTO {t}_failures (seq, at, attempt, worker, error) VALUES (@P1, @P2, @P3, @P4, @P5)",
    failure_trim: "DELETE FROM {t}_failures WHERE seq = @P1 AND no NOT IN (
             SELECT TOP (@P2) young.no FROM {t}_failures AS young WHERE young.seq = @P1 ORDER BY young.no DESC)",
    failure_list: "SELECT at, attempt, worker, error FROM {t}_failures WHERE seq = @P1 ORDER BY no",
    count: "SELECT 0, COUNT_BIG(*) FROM {t} WHERE state = 0 UNION ALL SELECT 1, COUNT_BIG(*) FROM {t} WHERE state = 1
         UNION ALL SELECT 2, COUNT_BIG(*) FROM {t} WHERE state = 2
         UNION ALL SELECT 3, COUNT_BIG(*) FROM {t} WHERE state = 3
         UNION ALL SELECT 4, COUNT_BIG(*) FROM {t} WHERE state = 4",
    count_waiting: "SELECT (SELECT COUNT_BIG(*) FROM {t} WHERE state = 0)
                + (SELECT COUNT_BIG(*) FROM {t} WHERE state = 1)",
    oldest: "SELECT TOP (1) created_at FROM {t} WHERE state = 0 ORDER BY visible_at, seq",
};

/// For a test only: a settle that does not ask who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(@P2 IS NOT NULL OR @P3 IS NOT NULL)", each: "a.o IS NOT NULL" };
