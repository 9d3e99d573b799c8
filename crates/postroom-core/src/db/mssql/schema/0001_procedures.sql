-- The procedures below take their ids as JSON, '["…", "…"]', and change the messages that this owner holds. Others are
-- skipped. An owner token belongs to one process. The leases of the library also carry a claim number.

IF OBJECT_ID(N'{outbox}_ack', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_ack AS RETURN 0');
GO

ALTER PROCEDURE {outbox}_ack @owner_token uniqueidentifier, @ids nvarchar(max), @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000'
        THROW 51001, N'a lease has an owner, whose token is not all zeros', 1;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    UPDATE {outbox}_taken SET done_at = @now
    WHERE seq IN (SELECT m.seq FROM {outbox} AS m
                  WHERE m.id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a))
      AND done_at = 0 AND owner = @owner_token;
END
GO

IF OBJECT_ID(N'{outbox}_abandon', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_abandon AS RETURN 0');
GO

-- Back to the queue after @delay_seconds, or otherwise after 1, 2, 4 … 60 seconds, by the attempts so far. A message
-- whose time to live is over is not tried again.
ALTER PROCEDURE {outbox}_abandon
    @owner_token uniqueidentifier, @ids nvarchar(max), @last_error nvarchar(4000) = NULL, @delay_seconds int = NULL,
    @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @held TABLE (seq bigint NOT NULL PRIMARY KEY);
    DECLARE @moves {outbox}_moves;
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000'
        THROW 51001, N'a lease has an owner, whose token is not all zeros', 1;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @last_error = NULLIF(@last_error, N'');
    IF @delay_seconds < 0
        THROW 51004, N'a delay is not below zero', 1;
    BEGIN TRANSACTION;
    INSERT INTO @held (seq)
    SELECT h.seq FROM {outbox}_taken AS h WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.seq IN (SELECT m.seq FROM {outbox} AS m
                    WHERE m.id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a))
      AND h.done_at = 0 AND h.owner = @owner_token;
    INSERT INTO @moves (row_seq, row_claim_no, to_state, to_visible_at, to_due_at, to_next_attempt_at, to_attempts,
                        to_crashes, to_claims, to_error, to_processed_at, to_processed_by, to_expires_at, to_response,
                        was_state)
    SELECT q.seq, q.claim_no, q.to_state,
           CASE WHEN q.to_state = 4 THEN NULL
                WHEN q.next_at >= q.created_at AND (q.due_at IS NULL OR q.next_at >= q.due_at) THEN q.next_at
                WHEN q.due_at < q.created_at - 86400000000 THEN q.created_at - 86400000000
                ELSE COALESCE(q.due_at, q.created_at) END,
           q.due_at, q.next_at, q.attempts + 1, 0, q.claim_no, COALESCE(@last_error, q.last_error),
           CASE WHEN q.to_state = 4 THEN @now END, CASE WHEN q.to_state = 4 THEN @owner_token END, q.expires_at,
           q.response, 1
    FROM (SELECT s.seq, s.claim_no, s.due_at, s.created_at, s.attempts, s.last_error, s.expires_at, s.response,
                 CASE WHEN s.expires_at <= @now THEN 4 ELSE 0 END AS to_state,
                 @now + 1000000 * CAST(COALESCE(@delay_seconds,
                     CASE WHEN s.attempts < 6 THEN POWER(2, s.attempts) ELSE 60 END) AS bigint) AS next_at
          FROM {outbox}_state AS s
          WHERE s.seq IN (SELECT h.seq FROM @held AS h) AND s.state = 1 AND s.owner = @owner_token) AS q;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT v.row_seq, @now, v.to_attempts, @owner_token, @last_error, N'handler_failed' FROM @moves AS v;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @held AS h)) AS ranked
        WHERE ranked.place > 20);
    EXEC {outbox}_move @moves;
    COMMIT TRANSACTION;
END
GO

IF OBJECT_ID(N'{outbox}_fail', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_fail AS RETURN 0');
GO

ALTER PROCEDURE {outbox}_fail
    @owner_token uniqueidentifier, @ids nvarchar(max), @last_error nvarchar(4000) = NULL, @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @held TABLE (seq bigint NOT NULL PRIMARY KEY);
    DECLARE @moves {outbox}_moves;
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000'
        THROW 51001, N'a lease has an owner, whose token is not all zeros', 1;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @last_error = NULLIF(@last_error, N'');
    BEGIN TRANSACTION;
    INSERT INTO @held (seq)
    SELECT h.seq FROM {outbox}_taken AS h WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.seq IN (SELECT m.seq FROM {outbox} AS m
                    WHERE m.id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a))
      AND h.done_at = 0 AND h.owner = @owner_token;
    INSERT INTO @moves (row_seq, row_claim_no, to_state, to_due_at, to_next_attempt_at, to_attempts, to_crashes,
                        to_claims, to_error, to_processed_at, to_processed_by, to_expires_at, to_response, was_state)
    SELECT s.seq, s.claim_no, 3, s.due_at, s.next_attempt_at, s.attempts + 1, s.crashes, s.claim_no,
           COALESCE(@last_error, s.last_error), @now, @owner_token, s.expires_at, s.response, 1
    FROM {outbox}_state AS s
    WHERE s.seq IN (SELECT h.seq FROM @held AS h) AND s.state = 1 AND s.owner = @owner_token;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT v.row_seq, @now, v.to_attempts, @owner_token, @last_error, N'handler_failed' FROM @moves AS v;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @held AS h)) AS ranked
        WHERE ranked.place > 20);
    EXEC {outbox}_move @moves;
    COMMIT TRANSACTION;
END
GO

IF OBJECT_ID(N'{outbox}_reap', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_reap AS RETURN 0');
GO

-- Reaps messages whose lease ran out: ready again after 2, 4 and 8 seconds, dead when it happens a fourth time in a
-- row. If the owner is null, it was cleared on purpose, and that is no crash.
ALTER PROCEDURE {outbox}_reap @limit int = 1000, @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    -- If two transactions wait for each other, the one that settles wins.
    SET DEADLOCK_PRIORITY LOW;
    DECLARE @over TABLE (seq bigint NOT NULL PRIMARY KEY);
    DECLARE @moves {outbox}_moves;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    BEGIN TRANSACTION;
    INSERT INTO @over (seq)
    SELECT TOP (@limit) h.seq FROM {outbox}_taken AS h WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE h.done_at = 0 AND h.until <= @now ORDER BY h.until, h.seq;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT s.seq, @now, s.attempts, s.owner, N'the worker vanished: its lease ran out', N'crashed'
    FROM {outbox}_state AS s WHERE s.seq IN (SELECT h.seq FROM @over AS h) AND s.state = 1 AND s.owner IS NOT NULL;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @over AS h)) AS ranked
        WHERE ranked.place > 20);
    INSERT INTO @moves (row_seq, row_claim_no, to_state, to_visible_at, to_due_at, to_next_attempt_at, to_attempts,
                        to_crashes, to_claims, to_error, to_processed_at, to_processed_by, to_expires_at, to_response,
                        was_state)
    SELECT q.seq, q.claim_no, q.to_state,
           CASE WHEN q.to_state > 0 THEN NULL
                WHEN q.next_at >= q.created_at AND (q.due_at IS NULL OR q.next_at >= q.due_at) THEN q.next_at
                WHEN q.due_at < q.created_at - 86400000000 THEN q.created_at - 86400000000
                ELSE COALESCE(q.due_at, q.created_at) END,
           q.due_at, q.next_at, q.attempts, q.crashes, q.claim_no, q.error, CASE WHEN q.to_state > 0 THEN @now END,
           CASE WHEN q.to_state > 0 THEN q.owner END, q.expires_at, q.response, 1
    FROM (SELECT s.seq, s.claim_no, s.due_at, s.created_at, s.attempts, s.owner, s.expires_at, s.response,
                 CASE WHEN s.owner IS NOT NULL AND s.crashes >= 3 THEN 3 WHEN s.expires_at <= @now THEN 4 ELSE 0 END
                     AS to_state,
                 CASE WHEN s.owner IS NULL THEN s.next_attempt_at ELSE s.locked_until + CAST(2000000 AS bigint)
                     * POWER(CAST(2 AS bigint), CASE WHEN s.crashes < 10 THEN s.crashes ELSE 10 END) END AS next_at,
                 CASE WHEN s.owner IS NULL THEN s.crashes ELSE s.crashes + 1 END AS crashes,
                 CASE WHEN s.owner IS NULL THEN s.last_error ELSE N'the worker vanished: its lease ran out' END AS error
          FROM {outbox}_state AS s WHERE s.seq IN (SELECT h.seq FROM @over AS h) AND s.state = 1) AS q;
    EXEC {outbox}_move @moves;
    COMMIT TRANSACTION;
    SELECT COUNT(*) AS reaped FROM @over;
END
GO

IF OBJECT_ID(N'{outbox}_expire', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_expire AS RETURN 0');
GO

-- Expires what was not sent in time.
ALTER PROCEDURE {outbox}_expire @limit int = 1000, @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    SET DEADLOCK_PRIORITY LOW;
    DECLARE @late TABLE (seq bigint NOT NULL PRIMARY KEY);
    DECLARE @moves {outbox}_moves;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    BEGIN TRANSACTION;
    INSERT INTO @late (seq)
    SELECT TOP (@limit) l.seq FROM {outbox}_line AS l WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE l.expires_at <= @now ORDER BY l.expires_at, l.seq;
    INSERT INTO @moves (row_seq, row_claim_no, to_state, to_due_at, to_next_attempt_at, to_attempts, to_crashes,
                        to_claims, to_error, to_processed_at, to_expires_at, to_response, was_state)
    SELECT s.seq, s.claim_no, 4, s.due_at, s.next_attempt_at, s.attempts, s.crashes, s.claim_no, s.last_error, @now,
           s.expires_at, s.response, 0
    FROM {outbox}_state AS s WHERE s.seq IN (SELECT l.seq FROM @late AS l) AND s.state = 0;
    EXEC {outbox}_move @moves;
    COMMIT TRANSACTION;
    SELECT COUNT(*) AS expired FROM @late;
END
GO

IF OBJECT_ID(N'{s}postroom_schema', N'U') IS NULL
CREATE TABLE {s}postroom_schema (
    outbox        nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    inbox         nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    version       bigint       NOT NULL,
    needs         bigint       NULL, -- the version that a program must know at least; null: this one
    maintained_at bigint       NOT NULL DEFAULT 0,
    payloads_from bigint       NOT NULL DEFAULT 0, -- the inbox keeps the payloads of what was done later
    PRIMARY KEY (outbox, inbox)
);
GO

INSERT INTO {s}postroom_schema (outbox, inbox, version)
SELECT N'{outbox_name}', N'{inbox_name}', 2
WHERE NOT EXISTS (SELECT 1 FROM {s}postroom_schema WHERE outbox = N'{outbox_name}' AND inbox = N'{inbox_name}');
EXEC sp_releaseapplock @Resource = N'postroom_schema', @LockOwner = N'Session';
GO
