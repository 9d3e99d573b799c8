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
        -- One of the two may have ended before the other.
        IF @i <= LEN(@topic)
            AND (UNICODE(SUBSTRING(@topic, @i, 1)) < 32 OR UNICODE(SUBSTRING(@topic, @i, 1)) BETWEEN 127 AND 159)
            OR @i <= LEN(@correlation_id)
            AND (UNICODE(SUBSTRING(@correlation_id, @i, 1)) < 32
                 OR UNICODE(SUBSTRING(@correlation_id, @i, 1)) BETWEEN 127 AND 159)
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
    SET @visible = CASE WHEN @due < @now - 86400000000 THEN @now - 86400000000 ELSE COALESCE(@due, @now) END;
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
                    WHEN @destination IS NULL THEN NULL
                    WHEN @visible > @now THEN @visible + 86400000000 ELSE @now + 86400000000 END,
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

