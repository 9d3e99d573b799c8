-- The procedures. One that exists is altered, so that the permissions granted on it stay.
IF OBJECT_ID(N'{outbox}_enqueue', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_enqueue AS RETURN 0');
GO

-- For services in any language, in their own transaction: EXEC {outbox}_enqueue N'order.placed', N'{"order": 7}';
-- The same message for the same destination is stored once. Null means: no destination, a new message id, no headers,
-- no correlation id, due at once, 'Event', a time to live of 24 hours after it is due with a destination and no limit
-- without one, as many attempts as the worker's policy says. Users who may execute it need no permission on the table.
ALTER PROCEDURE {outbox}_enqueue
    @topic nvarchar(max), @payload nvarchar(max), @destination nvarchar(max) = NULL,
    @message_id uniqueidentifier = NULL, @headers nvarchar(max) = NULL, @correlation_id nvarchar(max) = NULL,
    @due_at datetimeoffset(6) = NULL, @kind nvarchar(max) = N'Event', @ttl_seconds bigint = NULL,
    @max_attempts int = NULL
AS
BEGIN
    SET NOCOUNT ON;
    -- A row that another transaction wrote first must not abort the transaction of the caller.
    SET XACT_ABORT OFF;
    DECLARE @now bigint, @due bigint, @visible bigint, @id uniqueidentifier, @random char(36), @left bigint, @i int,
            @code int, @rest int, @byte int, @time varchar(12) = '', @hex varchar(2200), @hash varbinary(32),
            @bytes int, @name nvarchar(max), @value nvarchar(max), @tail varchar(20) = '',
            @digits char(16) = '0123456789ABCDEF';
    IF @topic IS NULL OR @topic = N'' OR @payload IS NULL
        THROW 51002, N'a message needs a topic and a payload', 1;
    IF LEN(@topic) > 255 OR LEN(@correlation_id) > 255
        THROW 51007, N'a topic or correlation id has at most 255 characters', 1;
    IF @topic LIKE N'% ' OR @correlation_id LIKE N'% '
        THROW 51008, N'a topic or correlation id does not end with a blank', 1;
    IF @message_id = '00000000-0000-0000-0000-000000000000' OR @max_attempts < 1 OR @ttl_seconds < 1
        THROW 51009, N'a message id is not all zeros, attempts and seconds to live are at least one', 1;
    IF @kind COLLATE Latin1_General_100_BIN2 NOT IN (N'Event', N'Signal', N'Command', N'PushCall', N'Response')
        THROW 51010, N'a kind is Event, Signal, Command, PushCall or Response', 1;
    -- Checked one by one: not every compatible server supports character ranges.
    SET @i = 1;
    WHILE @i <= LEN(@topic) OR @i <= LEN(@correlation_id)
    BEGIN
        IF UNICODE(SUBSTRING(@topic, @i, 1)) < 32 OR UNICODE(SUBSTRING(@topic, @i, 1)) BETWEEN 127 AND 159
            OR UNICODE(SUBSTRING(@correlation_id, @i, 1)) < 32
            OR UNICODE(SUBSTRING(@correlation_id, @i, 1)) BETWEEN 127 AND 159
            THROW 51011, N'a topic or correlation id has no control characters', 1;
        SET @i = @i + 1;
    END
    IF @destination = N'' OR @destination LIKE N'% ' OR LEN(@destination) > 64
        OR CHARINDEX(SUBSTRING(@destination, 1, 1), N'._-') > 0
        THROW 51003, N'a destination is 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit', 1;
    SET @i = 1;
    WHILE @i <= LEN(@destination)
    BEGIN
        SET @code = UNICODE(SUBSTRING(@destination, @i, 1));
        -- a to z, 0 to 9, minus, point, underscore
        IF NOT (@code BETWEEN 97 AND 122 OR @code BETWEEN 48 AND 57 OR @code IN (45, 46, 95))
            THROW 51003, N'a destination is 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit', 1;
        SET @i = @i + 1;
    END
    IF ISJSON(@headers) = 0 OR LEFT(LTRIM(REPLACE(REPLACE(REPLACE(@headers, NCHAR(9), N' '), NCHAR(10), N' '), NCHAR(13),
        N' ')), 1) <> N'{'
        THROW 51012, N'headers are a JSON object of texts, like {"language": "en"}', 1;
    IF EXISTS (SELECT 1 FROM OPENJSON(@headers) AS h WHERE h.type <> 1)
        THROW 51012, N'headers are a JSON object of texts, like {"language": "en"}', 1;
    IF EXISTS (SELECT 1 FROM OPENJSON(@headers) AS h
               WHERE h.[key] = N'' OR LEN(h.[key]) > 255 OR h.[key] LIKE N'% ')
        THROW 51013, N'a header''s name has 1 to 255 characters without controls or a blank at the end', 1;
    -- A character has two bytes here, and at least one in UTF-8, which is what counts.
    SELECT @left = COUNT(*), @bytes = CASE WHEN SUM(DATALENGTH(h.[key]) + DATALENGTH(h.[value])) > 32768 THEN 16385
                                           ELSE 0 END
    FROM OPENJSON(@headers) AS h;
    WHILE @left BETWEEN 1 AND 64 AND @bytes <= 16384
    BEGIN
        SELECT @name = h.[key], @value = h.[value]
        FROM (SELECT o.[key], o.[value], ROW_NUMBER() OVER (ORDER BY o.[key]) AS place FROM OPENJSON(@headers) AS o) AS h
        WHERE h.place = @left;
        SELECT @value = @name + @value, @i = 1;
        WHILE @i < LEN(@value + N'.')
        BEGIN
            SET @code = UNICODE(SUBSTRING(@value, @i, 1));
            IF @i < LEN(@name + N'.') AND (@code < 32 OR @code BETWEEN 127 AND 159)
                THROW 51013, N'a header''s name has 1 to 255 characters without controls or a blank at the end', 1;
            -- Half of a surrogate pair is two of its four bytes.
            SET @bytes = @bytes + CASE WHEN @code < 128 THEN 1 WHEN @code < 2048 OR @code BETWEEN 55296 AND 57343 THEN 2
                                       WHEN @code < 65536 THEN 3 ELSE 4 END;
            SET @i = @i + 1;
        END
        SET @left = @left - 1;
    END
    IF @left > 0 OR @bytes > 16384
        THROW 51014, N'headers are at most 64, and 16384 bytes in all', 1;
    SET @now = DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME());
    SET @due = DATEDIFF_BIG(MICROSECOND, '19700101', CAST(SWITCHOFFSET(@due_at, '+00:00') AS datetime2(6)));
    SET @visible = CASE WHEN @due > @now THEN @due ELSE @now END;
    IF @message_id IS NULL
    BEGIN
        -- A new id sorts by the time it was made (UUIDv7). Its digits are made one by one: not every compatible server
        -- can make them from bytes.
        SELECT @random = CONVERT(char(36), NEWID()), @left = @now / 1000, @i = 0;
        WHILE @i < 12
            SELECT @time = SUBSTRING(@digits, 1 + CAST(@left % 16 AS int), 1) + @time, @left = @left / 16, @i = @i + 1;
        SET @message_id = CONVERT(uniqueidentifier, SUBSTRING(@time, 1, 8) + '-' + SUBSTRING(@time, 9, 4) + '-7'
                                  + SUBSTRING(@random, 16, 3) + '-' + SUBSTRING(@random, 20, 17));
    END
    SET @id = @message_id;
    IF @destination IS NOT NULL
    BEGIN
        -- One message has an id for each destination, made of both (UUIDv8). The name of the destination is hashed as
        -- UTF-8.
        SELECT @hex = REPLACE(CONVERT(char(36), @message_id), '-', ''), @i = 1;
        WHILE @i <= LEN(@destination)
        BEGIN
            SET @code = UNICODE(SUBSTRING(@destination, @i, 1));
            IF @code BETWEEN 55296 AND 56319
            BEGIN
                SET @i = @i + 1;
                SET @code = 65536 + (@code - 55296) * 1024 + UNICODE(SUBSTRING(@destination, @i, 1)) - 56320;
            END
            SET @rest = CASE WHEN @code < 128 THEN 0 WHEN @code < 2048 THEN 1 WHEN @code < 65536 THEN 2 ELSE 3 END;
            SET @byte = CASE @rest WHEN 0 THEN @code WHEN 1 THEN 192 + @code / 64 WHEN 2 THEN 224 + @code / 4096
                                   ELSE 240 + @code / 262144 END;
            SET @hex = @hex + SUBSTRING(@digits, 1 + @byte / 16, 1) + SUBSTRING(@digits, 1 + @byte % 16, 1);
            WHILE @rest > 0
            BEGIN
                SET @rest = @rest - 1;
                SET @byte = 128 + @code / CASE @rest WHEN 2 THEN 4096 WHEN 1 THEN 64 ELSE 1 END % 64;
                SET @hex = @hex + SUBSTRING(@digits, 1 + @byte / 16, 1) + SUBSTRING(@digits, 1 + @byte % 16, 1);
            END
            SET @i = @i + 1;
        END
        SET @hash = HASHBYTES('SHA2_256', CONVERT(varbinary(1100), @hex, 2));
        SET @i = 7;
        WHILE @i <= 16
        BEGIN
            SET @byte = CAST(SUBSTRING(@hash, @i, 1) AS int);
            SET @byte = CASE @i WHEN 7 THEN @byte % 16 + 128 WHEN 9 THEN @byte % 64 + 128 ELSE @byte END;
            SET @tail = @tail + SUBSTRING(@digits, 1 + @byte / 16, 1) + SUBSTRING(@digits, 1 + @byte % 16, 1);
            SET @i = @i + 1;
        END
        SET @id = CONVERT(uniqueidentifier, SUBSTRING(@hex, 1, 8) + '-' + SUBSTRING(@hex, 9, 4) + '-'
                          + SUBSTRING(@tail, 1, 4) + '-' + SUBSTRING(@tail, 5, 4) + '-' + SUBSTRING(@tail, 9, 12));
    END
    BEGIN TRY
        INSERT INTO {outbox} (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at,
                              due_at, expires_at, max_attempts, created_at)
        SELECT @id, NULLIF(@message_id, @id), COALESCE(@kind, N'Event'), @topic, @payload, @destination, @headers,
               NULLIF(@correlation_id, N''), @visible, @due,
               CASE WHEN @ttl_seconds IS NOT NULL THEN @now + @ttl_seconds * 1000000
                    WHEN @destination IS NOT NULL THEN @visible + 86400000000 END,
               @max_attempts, @now
        WHERE NOT EXISTS (SELECT 1 FROM {outbox} WITH (READCOMMITTEDLOCK) WHERE id = @id);
    END TRY
    BEGIN CATCH
        -- Another transaction that wrote the same message first has stored it.
        IF ERROR_NUMBER() NOT IN (2601, 2627)
            THROW;
    END CATCH
END
GO

{each}
-- The procedures below take their ids as JSON, '["…", "…"]', and change the rows that this owner holds. Other rows are
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
    UPDATE {outbox}
    SET state = 2, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = @now,
        processed_by = @owner_token
    WHERE id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a)
      AND state = 1 AND owner = @owner_token;
END
GO

IF OBJECT_ID(N'{outbox}_abandon', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_abandon AS RETURN 0');
GO

-- Back to the queue after @delay_seconds, or otherwise after 1, 2, 4 … 60 seconds, by the attempts so far.
ALTER PROCEDURE {outbox}_abandon
    @owner_token uniqueidentifier, @ids nvarchar(max), @last_error nvarchar(4000) = NULL, @delay_seconds int = NULL,
    @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @held TABLE (seq bigint NOT NULL PRIMARY KEY);
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000'
        THROW 51001, N'a lease has an owner, whose token is not all zeros', 1;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @last_error = NULLIF(@last_error, N'');
    IF @delay_seconds < 0
        THROW 51004, N'a delay is not below zero', 1;
    BEGIN TRANSACTION;
    INSERT INTO @held (seq)
    SELECT seq FROM {outbox} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)
    WHERE id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a)
      AND state = 1 AND owner = @owner_token;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT seq, @now, attempts + 1, @owner_token, @last_error, N'handler_failed'
    FROM {outbox}
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @held AS h)) AS ranked
        WHERE ranked.place > 20);
    UPDATE {outbox}
    SET crashes = 0, attempts = attempts + 1, last_error = COALESCE(@last_error, last_error),
        next_attempt_at = @now + 1000000 * CAST(COALESCE(@delay_seconds,
            CASE WHEN attempts < 6 THEN POWER(2, attempts) ELSE 60 END) AS bigint)
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token;
    UPDATE {outbox}
    SET state = 0, owner = NULL, locked_until = NULL,
        visible_at = CASE WHEN next_attempt_at >= COALESCE(due_at, created_at) AND next_attempt_at >= created_at
                               THEN next_attempt_at
                          WHEN due_at >= created_at THEN due_at ELSE created_at END
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token AND (expires_at IS NULL OR expires_at > @now);
    -- A message whose time to live is over is not tried again.
    UPDATE {outbox}
    SET state = 4, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = @now,
        processed_by = @owner_token
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token;
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
    IF @owner_token IS NULL OR @owner_token = '00000000-0000-0000-0000-000000000000'
        THROW 51001, N'a lease has an owner, whose token is not all zeros', 1;
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    SET @last_error = NULLIF(@last_error, N'');
    BEGIN TRANSACTION;
    INSERT INTO @held (seq)
    SELECT seq FROM {outbox} WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)
    WHERE id IN (SELECT CAST(a.value AS uniqueidentifier) FROM OPENJSON(@ids) AS a)
      AND state = 1 AND owner = @owner_token;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT seq, @now, attempts + 1, @owner_token, @last_error, N'handler_failed'
    FROM {outbox}
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @held AS h)) AS ranked
        WHERE ranked.place > 20);
    UPDATE {outbox}
    SET state = 3, owner = NULL, locked_until = NULL, visible_at = NULL, processed_at = @now,
        processed_by = @owner_token, attempts = attempts + 1, last_error = COALESCE(@last_error, last_error)
    WHERE seq IN (SELECT h.seq FROM @held AS h)
      AND state = 1 AND owner = @owner_token;
    COMMIT TRANSACTION;
END
GO

IF OBJECT_ID(N'{outbox}_reap', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_reap AS RETURN 0');
GO

-- Reaps rows whose lease ran out: ready again after 2, 4 and 8 seconds, dead when it happens a fourth time in a row.
ALTER PROCEDURE {outbox}_reap @limit int = 1000, @now bigint = NULL
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    -- If two transactions wait for each other, the one that settles wins.
    SET DEADLOCK_PRIORITY LOW;
    DECLARE @held TABLE (seq bigint NOT NULL PRIMARY KEY);
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    BEGIN TRANSACTION;
    INSERT INTO @held (seq)
    SELECT TOP (@limit) seq FROM {outbox} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE state = 1 AND visible_at <= @now ORDER BY visible_at, seq;
    INSERT INTO {outbox}_failures (seq, at, attempt, worker, error, code)
    SELECT seq, @now, attempts, owner, N'the worker vanished: its lease ran out', N'crashed'
    FROM {outbox} WHERE seq IN (SELECT h.seq FROM @held AS h) AND state = 1 AND owner IS NOT NULL;
    -- Twenty errors are kept for each message.
    DELETE FROM {outbox}_failures WHERE no IN (
        SELECT ranked.no
        FROM (SELECT f.no, ROW_NUMBER() OVER (PARTITION BY f.seq ORDER BY f.no DESC) AS place
              FROM {outbox}_failures AS f WHERE f.seq IN (SELECT h.seq FROM @held AS h)) AS ranked
        WHERE ranked.place > 20);
    -- If the owner is null, it was cleared on purpose, and that is no crash.
    UPDATE {outbox}
    SET crashes = crashes + 1, last_error = N'the worker vanished: its lease ran out',
        next_attempt_at = locked_until
            + CAST(2000000 AS bigint) * POWER(CAST(2 AS bigint), CASE WHEN crashes < 10 THEN crashes ELSE 10 END)
    WHERE seq IN (SELECT h.seq FROM @held AS h) AND state = 1 AND owner IS NOT NULL;
    UPDATE {outbox}
    SET state = CASE WHEN owner IS NOT NULL AND crashes >= 4 THEN 3 ELSE 4 END, processed_at = @now,
        processed_by = owner, owner = NULL, locked_until = NULL, visible_at = NULL
    WHERE seq IN (SELECT h.seq FROM @held AS h) AND state = 1
      AND (owner IS NOT NULL AND crashes >= 4 OR expires_at <= @now);
    UPDATE {outbox}
    SET state = 0, owner = NULL, locked_until = NULL,
        visible_at = CASE WHEN next_attempt_at >= COALESCE(due_at, created_at) AND next_attempt_at >= created_at
                               THEN next_attempt_at
                          WHEN due_at >= created_at THEN due_at ELSE created_at END
    WHERE seq IN (SELECT h.seq FROM @held AS h) AND state = 1;
    COMMIT TRANSACTION;
    SELECT COUNT(*) AS reaped FROM @held;
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
    SET @now = COALESCE(@now, DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()));
    BEGIN TRANSACTION;
    INSERT INTO @late (seq)
    SELECT TOP (@limit) seq FROM {outbox} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE state = 0 AND expires_at <= @now ORDER BY expires_at, seq;
    UPDATE {outbox}
    SET state = 4, visible_at = NULL, processed_at = @now
    WHERE seq IN (SELECT l.seq FROM @late AS l) AND state = 0;
    COMMIT TRANSACTION;
    SELECT COUNT(*) AS expired FROM @late;
END
GO

IF OBJECT_ID(N'{s}postroom_schema', N'U') IS NULL
CREATE TABLE {s}postroom_schema (
    outbox        nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    inbox         nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    version       bigint       NOT NULL,
    maintained_at bigint       NOT NULL DEFAULT 0,
    payloads_from bigint       NOT NULL DEFAULT 0, -- the inbox keeps the payloads of what was done later
    PRIMARY KEY (outbox, inbox)
);
GO

INSERT INTO {s}postroom_schema (outbox, inbox, version)
SELECT N'{outbox_name}', N'{inbox_name}', 1
WHERE NOT EXISTS (SELECT 1 FROM {s}postroom_schema WHERE outbox = N'{outbox_name}' AND inbox = N'{inbox_name}');
EXEC sp_releaseapplock @Resource = N'postroom_schema', @LockOwner = N'Session';
GO
