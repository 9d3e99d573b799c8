-- Messages that leave where they stand, under that claim number, and where they go.
IF TYPE_ID(N'{t}_moves') IS NULL
CREATE TYPE {t}_moves AS TABLE (
    row_seq            bigint           NOT NULL PRIMARY KEY,
    row_claim_no       bigint           NOT NULL,
    to_state           int              NOT NULL,
    to_visible_at      bigint           NULL,
    to_due_at          bigint           NULL,
    to_next_attempt_at bigint           NULL,
    to_attempts        int              NOT NULL,
    to_crashes         int              NOT NULL,
    to_claims          bigint           NOT NULL,
    to_owner           uniqueidentifier NULL,
    to_until           bigint           NULL,
    to_error           nvarchar(max)    NULL,
    to_processed_at    bigint           NULL,
    to_processed_by    uniqueidentifier NULL,
    to_expires_at      bigint           NULL,
    to_response        nvarchar(max)    NULL,
    was_state          int              NOT NULL
);
GO

-- Moves messages. One that no longer stands where it was found stays where it is; @moved is the number of the others.
-- It is not altered: not every compatible server can alter a procedure that takes a table.
IF OBJECT_ID(N'{t}_move', N'P') IS NULL
EXEC (N'CREATE PROCEDURE {t}_move @rows {t}_moves READONLY, @moved bigint = NULL OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @stood TABLE (row_seq bigint NOT NULL PRIMARY KEY, row_claim_no bigint NOT NULL, was_state int NOT NULL,
                          row_at bigint NULL, tried_at bigint NULL);
    DECLARE @gone TABLE (row_seq bigint NOT NULL PRIMARY KEY, taken_at bigint NULL);
    BEGIN TRANSACTION;
    -- Whoever read a message by its key has locked it, and sees it in one place.
    INSERT INTO @stood (row_seq, row_claim_no, was_state, row_at, tried_at)
    SELECT r.row_seq, r.row_claim_no, r.was_state, COALESCE(t.visible_at, m.visible_at), t.last_attempt_at
    FROM @rows AS r JOIN {t} AS m WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK) ON m.seq = r.row_seq
        LEFT JOIN {t}_trouble AS t WITH (READCOMMITTEDLOCK) ON t.seq = r.row_seq
    OPTION (LOOP JOIN);
    IF EXISTS (SELECT 1 FROM @stood WHERE was_state = 0)
        DELETE FROM {t}_line OUTPUT deleted.seq INTO @gone (row_seq)
        WHERE EXISTS (SELECT 1 FROM @stood AS s
                      WHERE s.was_state = 0 AND s.row_at = visible_at AND s.row_seq = seq AND s.row_claim_no = claims)
        OPTION (LOOP JOIN);
    IF EXISTS (SELECT 1 FROM @stood WHERE was_state IN (1, 2))
        DELETE FROM {t}_taken OUTPUT deleted.seq, deleted.at INTO @gone (row_seq, taken_at)
        WHERE EXISTS (SELECT 1 FROM @stood AS s
                      WHERE s.row_seq = seq AND s.row_claim_no = claim_no
                        AND (s.was_state = 1 AND done_at = 0 OR s.was_state = 2 AND done_at > 0))
        OPTION (LOOP JOIN);
    IF EXISTS (SELECT 1 FROM @stood WHERE was_state > 2)
        UPDATE {t}_trouble SET state = 0 OUTPUT inserted.seq INTO @gone (row_seq)
        WHERE EXISTS (SELECT 1 FROM @stood AS s
                      WHERE s.was_state > 2 AND s.was_state = state AND s.row_seq = seq AND s.row_claim_no = claims)
        OPTION (LOOP JOIN);

    IF EXISTS (SELECT 1 FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq JOIN {t} AS m ON m.seq = g.row_seq
               WHERE COALESCE(m.due_at, -1) <> COALESCE(r.to_due_at, -1) OR m.born = 5 AND r.to_state <> 5)
        UPDATE m SET due_at = r.to_due_at, born = CASE WHEN m.born = 5 AND r.to_state <> 5 THEN 1 ELSE m.born END
        FROM {t} AS m JOIN @gone AS g ON g.row_seq = m.seq JOIN @rows AS r ON r.row_seq = g.row_seq;
    UPDATE t
    SET state = CASE WHEN r.to_state > 2 THEN r.to_state ELSE 0 END,
        at = CASE WHEN r.to_state IN (5, 6) THEN t.at ELSE r.to_processed_at END, processed_by = r.to_processed_by,
        attempts = r.to_attempts, crashes = r.to_crashes, claims = r.to_claims,
        visible_at = CASE WHEN r.to_state = 0 THEN r.to_visible_at END, next_attempt_at = r.to_next_attempt_at,
        last_attempt_at = CASE WHEN r.was_state IN (1, 2) THEN g.taken_at ELSE t.last_attempt_at END,
        expires_at = r.to_expires_at, last_error = r.to_error
    FROM {t}_trouble AS t JOIN @gone AS g ON g.row_seq = t.seq JOIN @rows AS r ON r.row_seq = g.row_seq;
    INSERT INTO {t}_trouble (seq, state, at, processed_by, attempts, crashes, claims, visible_at, next_attempt_at,
                             last_attempt_at, expires_at, last_error)
    SELECT g.row_seq, CASE WHEN r.to_state > 2 THEN r.to_state ELSE 0 END, r.to_processed_at, r.to_processed_by,
           r.to_attempts, r.to_crashes, r.to_claims, CASE WHEN r.to_state = 0 THEN r.to_visible_at END,
           r.to_next_attempt_at, g.taken_at, r.to_expires_at, r.to_error
    FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq
    WHERE NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = g.row_seq);

    INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
    SELECT r.to_visible_at, m.seq, {place}, r.to_expires_at, r.to_crashes, r.to_claims, DATALENGTH(m.payload)
    FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq JOIN {t} AS m ON m.seq = g.row_seq
    WHERE r.to_state = 0;
    INSERT INTO {t}_taken (seq, claim_no, owner, at, until, done_at)
    SELECT g.row_seq, r.to_claims, CASE WHEN r.to_state = 1 THEN r.to_owner ELSE r.to_processed_by END,
           CASE WHEN r.was_state IN (1, 2) THEN g.taken_at ELSE s.tried_at END,
           CASE WHEN r.to_state = 1 THEN r.to_until END,
           CASE WHEN r.to_state = 1 THEN 0 ELSE COALESCE(r.to_processed_at, 1) END
    FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq JOIN @stood AS s ON s.row_seq = g.row_seq
    WHERE r.to_state IN (1, 2);
    -- An answer that arrived since the message was read is kept, unless it was done or had ended.
    DELETE FROM {t}_answer WHERE seq IN (
        SELECT g.row_seq FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq
        WHERE r.was_state > 1 OR r.to_response IS NOT NULL);
    INSERT INTO {t}_answer (seq, response)
    SELECT g.row_seq, r.to_response FROM @gone AS g JOIN @rows AS r ON r.row_seq = g.row_seq
    WHERE r.to_response IS NOT NULL;
    SELECT @moved = COUNT_BIG(*) FROM @gone;
    COMMIT TRANSACTION;
END');
GO

