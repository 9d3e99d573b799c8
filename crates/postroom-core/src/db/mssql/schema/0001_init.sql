-- Postroom's tables and procedures on SQL Server 2016 and newer. Times are microseconds since 1970 in UTC.
--
-- A message is written once. Where it stands is written elsewhere, in narrow tables, and it stands in one place:
--   _line     it waits
--   _taken    a claim has taken it: it is in progress, or done
--   _trouble  with a state above 0, it is dead, expired, dismissed, seen, or handled elsewhere;
--             with state 0, what happened to it before
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing, 7 dismissed
--
-- Messages are stored in the order in which they arrive: with the id as the clustered key each insert would go to
-- another page. Names are compared byte by byte; a name of 255 characters may need 510 places. The text is for sqlcmd,
-- SSMS and similar tools, which end a batch at each GO. It can be run again, and by two programs at once.
SET ANSI_NULLS ON;
SET QUOTED_IDENTIFIER ON;
SET NOCOUNT ON;
DECLARE @locked int;
EXEC @locked = sp_getapplock @Resource = N'postroom_schema', @LockMode = N'Exclusive', @LockOwner = N'Session',
                             @LockTimeout = 60000;
IF @locked < 0
    THROW 51000, N'another program has been deploying the schema for a minute', 1;
GO

{create_schema}

IF OBJECT_ID(N'{outbox}', N'U') IS NULL
CREATE TABLE {outbox} (
    seq             bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {outbox_name}_seq PRIMARY KEY CLUSTERED,
    id              uniqueidentifier NOT NULL CONSTRAINT {outbox_name}_id UNIQUE NONCLUSTERED,
    message_id      uniqueidentifier NULL, -- null: the same as id
    kind            nvarchar(32)     NOT NULL DEFAULT N'Event',
    topic           nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    payload         nvarchar(max)    NOT NULL,
    destination     nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    headers         nvarchar(max)    NULL,
    correlation_id  nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    lane            nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    visible_at      bigint           NULL, -- when it was due first; the line needs it
    due_at          bigint           NULL,
    expires_at      bigint           NULL,
    max_attempts    int              NULL,
    created_at      bigint           NOT NULL,
    born            smallint         NOT NULL DEFAULT 0 -- the state in which it was written
);
GO

-- A server may add to the name of an index, so only its beginning is compared.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_message%')
    CREATE INDEX {outbox_name}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;
GO

IF OBJECT_ID(N'{inbox}', N'U') IS NULL
CREATE TABLE {inbox} (
    seq             bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {inbox_name}_seq PRIMARY KEY CLUSTERED,
    source          nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    message_id      nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    kind            nvarchar(32)     NOT NULL DEFAULT N'Event',
    topic           nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT N'',
    dropped_at      bigint           NULL, -- when its payload was dropped, because it was done long ago
    payload         nvarchar(max)    NOT NULL DEFAULT N'',
    hash            varbinary(max)   NULL, -- the name of the algorithm, a colon, the digest
    headers         nvarchar(max)    NULL,
    correlation_id  nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    lane            nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    visible_at      bigint           NULL, -- null if it was only seen at first
    due_at          bigint           NULL,
    expires_at      bigint           NULL,
    max_attempts    int              NULL,
    created_at      bigint           NOT NULL,
    last_seen_at    bigint           NOT NULL,
    born            smallint         NOT NULL DEFAULT 5, -- the state in which it was written; 5 while it is only seen
    CONSTRAINT {inbox_name}_key UNIQUE NONCLUSTERED (source, message_id)
);
GO

-- One mark for each handler of a message that does not come through the inbox.
IF OBJECT_ID(N'{inbox}_marks', N'U') IS NULL
CREATE TABLE {inbox}_marks (
    seq        bigint        IDENTITY(1, 1) NOT NULL CONSTRAINT {inbox_name}_marks_seq PRIMARY KEY CLUSTERED,
    source     nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    message_id nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    handler    nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    topic      nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL, -- empty where the sender names none
    marked_at  bigint        NOT NULL,
    CONSTRAINT {inbox_name}_marks_key UNIQUE NONCLUSTERED (source, message_id, handler)
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}_marks') AND name LIKE N'{inbox_name}_marks_age%')
    CREATE INDEX {inbox_name}_marks_age ON {inbox}_marks (handler, marked_at);
GO

{each}
