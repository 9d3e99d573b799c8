-- The tables and procedures that belong to each queue.
IF OBJECT_ID(N'{t}_failures', N'U') IS NULL
CREATE TABLE {t}_failures (
    no      bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {n}_failures_no PRIMARY KEY CLUSTERED,
    seq     bigint           NOT NULL,
    at      bigint           NOT NULL,
    attempt int              NOT NULL,
    worker  uniqueidentifier NULL,
    error   nvarchar(max)    NULL,
    code    nvarchar(32)     NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_failures') AND name LIKE N'{n}_failures_seq%')
    CREATE INDEX {n}_failures_seq ON {t}_failures (seq, no);
GO

-- Destinations and handlers that are held because they failed.
IF OBJECT_ID(N'{t}_holds', N'U') IS NULL
CREATE TABLE {t}_holds (
    kind     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL, -- service or topic
    name     nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    owner    uniqueidentifier NOT NULL,
    since    bigint           NOT NULL,
    tried_at bigint           NOT NULL,
    code     nvarchar(32)     NULL,
    why      nvarchar(max)    NULL,
    CONSTRAINT {n}_holds_place PRIMARY KEY (kind, name, owner)
);
GO

-- Actions of operators: who, what, how many messages, and why.
IF OBJECT_ID(N'{t}_audit', N'U') IS NULL
CREATE TABLE {t}_audit (
    act      uniqueidentifier NOT NULL,
    what     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL,
    messages bigint           NOT NULL,
    at       bigint           NOT NULL,
    who      nvarchar(510)    NOT NULL,
    why      nvarchar(max)    NULL,
    chosen   nvarchar(max)    NULL,
    CONSTRAINT {n}_audit_act PRIMARY KEY (act, what)
);
GO

IF OBJECT_ID(N'{t}_claim', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {t}_claim AS RETURN 0');
GO

-- Claims up to @batch_size ready messages for @lease_seconds, and answers with them. Suspects come only with @suspects
-- = 1, one at a time. Rows that others have locked are skipped. The write checks again that nobody claimed the rows
-- since they were chosen. The library passes its own time in @now and @until, the row to start from in @above, and in
-- @bytes how much payload it takes beyond the first @least messages. @topics and @destinations are names between line
-- breaks: only these, or all but these with @only_topics = 0 and @only_destinations = 0.
ALTER PROCEDURE {t}_claim
    @owner_token uniqueidentifier, @lease_seconds int = 30, @batch_size bigint = 50,
    @now bigint = NULL, @until bigint = NULL, @above bigint = NULL,
    @bytes bigint = 9223372036854775807, @least bigint = 1, @topics nvarchar(max) = NULL, @only_topics bigint = 1,
    @destinations nvarchar(max) = NULL, @only_destinations bigint = 1, @suspects bigint = 0
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000' OR @lease_seconds <= 0
       OR @batch_size <= 0
        THROW 51001, N'a claim needs an owner, and a lease and a batch of more than zero', 1;
    -- The rows are chosen before one is written: a plan that joins the two steps may look for them twice.
    DECLARE @line TABLE (row_seq bigint NOT NULL PRIMARY KEY, row_at bigint NOT NULL, row_claim_no bigint NOT NULL,
                         row_bytes bigint NOT NULL);
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @until = COALESCE(@until, @now + CAST(@lease_seconds AS bigint) * 1000000);
    SET @above = COALESCE(@above, -9223372036854775807);
    BEGIN TRANSACTION;
    IF @suspects = 1
        INSERT INTO @line (row_seq, row_at, row_claim_no, row_bytes)
        SELECT TOP (@batch_size) seq, visible_at, claim_no, DATALENGTH(payload)
        FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE state = 0 AND crashes > 0 AND visible_at <= @now
          AND (expires_at IS NULL OR expires_at > @now)
          AND 1 = CASE
                  WHEN {here} AND CHARINDEX(NCHAR(10), topic) = 0
                       AND CHARINDEX(NCHAR(10) + topic + NCHAR(10), @topics) > 0 THEN @only_topics
                  WHEN {here} THEN 1 - @only_topics
                  WHEN CHARINDEX(NCHAR(10), {destination}) = 0
                       AND CHARINDEX(NCHAR(10) + {destination} + NCHAR(10), @destinations) > 0 THEN @only_destinations
                  ELSE 1 - @only_destinations END
        ORDER BY visible_at, seq;
    ELSE IF @topics IS NULL
        INSERT INTO @line (row_seq, row_at, row_claim_no, row_bytes)
        SELECT TOP (@batch_size) seq, visible_at, claim_no, DATALENGTH(payload)
        FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE state = 0 AND crashes = 0 AND visible_at <= @now AND visible_at >= @above
          AND (expires_at IS NULL OR expires_at > @now)
        ORDER BY visible_at, seq;
    ELSE
        INSERT INTO @line (row_seq, row_at, row_claim_no, row_bytes)
        SELECT TOP (@batch_size) seq, visible_at, claim_no, DATALENGTH(payload)
        FROM {t} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE state = 0 AND crashes = 0 AND visible_at <= @now AND visible_at >= @above
          AND (expires_at IS NULL OR expires_at > @now)
          AND 1 = CASE
                  WHEN {here} AND CHARINDEX(NCHAR(10), topic) = 0
                       AND CHARINDEX(NCHAR(10) + topic + NCHAR(10), @topics) > 0 THEN @only_topics
                  WHEN {here} THEN 1 - @only_topics
                  WHEN CHARINDEX(NCHAR(10), {destination}) = 0
                       AND CHARINDEX(NCHAR(10) + {destination} + NCHAR(10), @destinations) > 0 THEN @only_destinations
                  ELSE 1 - @only_destinations END
        ORDER BY visible_at, seq;
    DELETE FROM @line WHERE row_seq IN (
        SELECT summed.row_seq
        FROM (SELECT row_seq, SUM(row_bytes) OVER (ORDER BY row_at, row_seq ROWS UNBOUNDED PRECEDING) AS total,
                     ROW_NUMBER() OVER (ORDER BY row_at, row_seq) AS place
              FROM @line) AS summed
        WHERE summed.total > @bytes AND summed.place > @least);
    UPDATE {t}
    SET state = 1, owner = @owner_token, locked_until = @until, visible_at = @until, claim_no = claim_no + 1,
        last_attempt_at = @now
    OUTPUT {inserted}, inserted.next_attempt_at
    WHERE EXISTS (SELECT 1 FROM @line WHERE row_seq = seq AND row_claim_no = claim_no)
      AND state = 0
    OPTION (LOOP JOIN);
    COMMIT TRANSACTION;
END
GO

