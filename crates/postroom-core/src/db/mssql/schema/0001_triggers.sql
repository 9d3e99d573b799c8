-- A new message waits.
IF OBJECT_ID(N'{outbox}_written', N'TR') IS NULL
EXEC (N'CREATE TRIGGER {outbox}_written ON {outbox} AFTER INSERT
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted WHERE lane IS NOT NULL)
        THROW 51015, N''lanes are not kept on SQL Server: enqueue the message without one'', 1;
    INSERT INTO {outbox}_line (visible_at, seq, place, expires_at, bytes)
    SELECT visible_at, seq, CASE WHEN destination IS NULL THEN N''='' + topic ELSE N''>'' + destination END, expires_at,
           DATALENGTH(payload)
    FROM inserted;
END');
GO

-- A new message waits, or it is only known.
IF OBJECT_ID(N'{inbox}_written', N'TR') IS NULL
EXEC (N'CREATE TRIGGER {inbox}_written ON {inbox} AFTER INSERT
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted WHERE lane IS NOT NULL)
        THROW 51015, N''lanes are not kept on SQL Server: enqueue the message without one'', 1;
    INSERT INTO {inbox}_line (visible_at, seq, place, expires_at, bytes)
    SELECT visible_at, seq, N''='' + topic, expires_at, DATALENGTH(payload) FROM inserted WHERE born = 0;
    INSERT INTO {inbox}_trouble (seq, state, at, expires_at)
    SELECT seq, 5, last_seen_at, expires_at FROM inserted WHERE born = 5;
END');
GO

IF OBJECT_ID(N'{inbox}_changed', N'TR') IS NULL
EXEC (N'CREATE TRIGGER {inbox}_changed ON {inbox} AFTER UPDATE
AS
BEGIN
    SET NOCOUNT ON;
    -- The content of a message arrives that was only known.
    IF EXISTS (SELECT 1 FROM inserted AS i JOIN deleted AS d ON d.seq = i.seq WHERE d.born = 5 AND i.born = 0)
    BEGIN
        UPDATE t SET state = 0, at = NULL, visible_at = i.visible_at, expires_at = i.expires_at
        FROM {inbox}_trouble AS t JOIN inserted AS i ON i.seq = t.seq JOIN deleted AS d ON d.seq = i.seq
        WHERE d.born = 5 AND i.born = 0;
        INSERT INTO {inbox}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
        SELECT i.visible_at, i.seq, N''='' + i.topic, i.expires_at, t.crashes, t.claims, DATALENGTH(i.payload)
        FROM inserted AS i JOIN deleted AS d ON d.seq = i.seq JOIN {inbox}_trouble AS t ON t.seq = i.seq
        WHERE d.born = 5 AND i.born = 0;
    END
    -- Messages that are only known are deleted by the time of their last arrival.
    UPDATE t SET at = i.last_seen_at
    FROM {inbox}_trouble AS t JOIN inserted AS i ON i.seq = t.seq WHERE t.state IN (5, 6);
END');
GO

