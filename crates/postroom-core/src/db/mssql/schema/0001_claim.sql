IF OBJECT_ID(N'{t}_claim', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {t}_claim AS RETURN 0');
GO

-- Claims up to @batch_size messages that wait, for @lease_seconds, and answers with them. Suspects come only with
-- @suspects = 1, one at a time. Rows that others have locked are skipped. A message is claimed by whoever deletes its
-- row of the line. The library passes its own time in @now and @until, the time to start from in @above, and in @bytes
-- how much payload it takes beyond the first @least messages. @topics and @destinations are names between line breaks:
-- only these, or all but these with @only_topics = 0 and @only_destinations = 0.
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
    DECLARE @chosen TABLE (row_at bigint NOT NULL, row_seq bigint NOT NULL, row_claims bigint NOT NULL,
                           row_bytes bigint NOT NULL, PRIMARY KEY (row_at, row_seq));
    DECLARE @got TABLE (row_at bigint NOT NULL, row_seq bigint NOT NULL PRIMARY KEY, claim_no bigint NOT NULL);
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @until = COALESCE(@until, @now + CAST(@lease_seconds AS bigint) * 1000000);
    SET @above = COALESCE(@above, -9223372036854775807);
    BEGIN TRANSACTION;
    IF @suspects = 1
        INSERT INTO @chosen (row_at, row_seq, row_claims, row_bytes)
        SELECT TOP (@batch_size) visible_at, seq, claims, bytes
        FROM {t}_line WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE crashes > 0 AND visible_at <= @now AND (expires_at IS NULL OR expires_at > @now) AND {among_asked}
        ORDER BY visible_at, seq;
    ELSE IF @topics IS NULL
        INSERT INTO @chosen (row_at, row_seq, row_claims, row_bytes)
        SELECT TOP (@batch_size) visible_at, seq, claims, bytes
        FROM {t}_line WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE crashes = 0 AND visible_at <= @now AND visible_at >= @above AND (expires_at IS NULL OR expires_at > @now)
        ORDER BY visible_at, seq;
    ELSE
        INSERT INTO @chosen (row_at, row_seq, row_claims, row_bytes)
        SELECT TOP (@batch_size) visible_at, seq, claims, bytes
        FROM {t}_line WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE crashes = 0 AND visible_at <= @now AND visible_at >= @above AND (expires_at IS NULL OR expires_at > @now)
          AND {among_asked}
        ORDER BY visible_at, seq;
    -- What is too much stays in the line.
    DELETE FROM @chosen WHERE row_seq IN (
        SELECT summed.row_seq
        FROM (SELECT row_seq, SUM(row_bytes) OVER (ORDER BY row_at, row_seq ROWS UNBOUNDED PRECEDING) AS total,
                     ROW_NUMBER() OVER (ORDER BY row_at, row_seq) AS nth
              FROM @chosen) AS summed
        WHERE summed.total > @bytes AND summed.nth > @least);
    IF EXISTS (SELECT 1 FROM @chosen)
    BEGIN
        DELETE FROM {t}_line OUTPUT deleted.visible_at, deleted.seq, deleted.claims + 1
            INTO @got (row_at, row_seq, claim_no)
        WHERE EXISTS (SELECT 1 FROM @chosen AS c
                      WHERE c.row_at = visible_at AND c.row_seq = seq AND c.row_claims = claims)
        OPTION (LOOP JOIN);
        INSERT INTO {t}_taken (seq, claim_no, owner, at, until)
        SELECT g.row_seq, g.claim_no, @owner_token, @now, @until FROM @got AS g;
    END
    SELECT {message}, row_at AS visible_at
    FROM (SELECT {wide}, g.claim_no, g.row_at
          FROM @got AS g JOIN {t} AS m ON m.seq = g.row_seq{troubled}) AS claimed
    OPTION (LOOP JOIN);
    COMMIT TRANSACTION;
END
GO

