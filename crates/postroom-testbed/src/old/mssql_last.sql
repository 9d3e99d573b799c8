-- Tables of version 1, as their last programs created them. The procedures are only names.
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
    state           tinyint          NOT NULL DEFAULT 0 CHECK (state <= 4 OR state = 7),
    visible_at      bigint           NULL,
    due_at          bigint           NULL,
    next_attempt_at bigint           NULL,
    expires_at      bigint           NULL,
    attempts        int              NOT NULL DEFAULT 0,
    max_attempts    int              NULL,
    crashes         int              NOT NULL DEFAULT 0,
    claim_no        bigint           NOT NULL DEFAULT 0,
    owner           uniqueidentifier NULL,
    locked_until    bigint           NULL,
    created_at      bigint           NOT NULL,
    last_attempt_at bigint           NULL,
    last_error      nvarchar(max)    NULL,
    processed_at    bigint           NULL,
    processed_by    uniqueidentifier NULL,
    response        nvarchar(max)    NULL,
    dismissed_by    nvarchar(510)    NULL,
    dismissed_why   nvarchar(max)    NULL
);
GO

-- A server may add to the name of an index, so only its beginning is compared.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_message%')
    CREATE INDEX {outbox_name}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_ready%')
    CREATE INDEX {outbox_name}_ready ON {outbox} (visible_at, seq)
        INCLUDE (claim_no, crashes, expires_at, topic, destination) WHERE state = 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_suspects%')
    CREATE INDEX {outbox_name}_suspects ON {outbox} (visible_at, seq) WHERE state = 0 AND crashes > 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_leased%')
    CREATE INDEX {outbox_name}_leased ON {outbox} (visible_at, seq) INCLUDE (owner, claim_no) WHERE state = 1;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_done%')
    CREATE INDEX {outbox_name}_done ON {outbox} (processed_at, seq) WHERE state = 2;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_dead%')
    CREATE INDEX {outbox_name}_dead ON {outbox} (seq) INCLUDE (topic, destination, processed_at) WHERE state = 3;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_expired%')
    CREATE INDEX {outbox_name}_expired ON {outbox} (seq) INCLUDE (topic, destination, processed_at) WHERE state = 4;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_expiring%')
    CREATE INDEX {outbox_name}_expiring ON {outbox} (expires_at, seq) WHERE state = 0 AND expires_at IS NOT NULL;
-- Dead letters whose time to live is not over yet.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_lapsing%')
    CREATE INDEX {outbox_name}_lapsing ON {outbox} (expires_at, seq) WHERE state = 3 AND expires_at IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}') AND name LIKE N'{outbox_name}_dismissed%')
    CREATE INDEX {outbox_name}_dismissed ON {outbox} (processed_at, seq) WHERE state = 7;
GO

IF OBJECT_ID(N'{inbox}', N'U') IS NULL
CREATE TABLE {inbox} (
    seq             bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {inbox_name}_seq PRIMARY KEY CLUSTERED,
    source          nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    message_id      nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    kind            nvarchar(32)     NOT NULL DEFAULT N'Event',
    topic           nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT N'',
    payload         nvarchar(max)    NOT NULL DEFAULT N'',
    hash            varbinary(max)   NULL, -- the name of the algorithm, a colon, the digest
    headers         nvarchar(max)    NULL,
    correlation_id  nvarchar(510)    COLLATE Latin1_General_100_BIN2 NULL,
    state           tinyint          NOT NULL DEFAULT 5 CHECK (state <= 7),
    visible_at      bigint           NULL,
    due_at          bigint           NULL,
    next_attempt_at bigint           NULL,
    expires_at      bigint           NULL,
    attempts        int              NOT NULL DEFAULT 0,
    max_attempts    int              NULL,
    crashes         int              NOT NULL DEFAULT 0,
    claim_no        bigint           NOT NULL DEFAULT 0,
    owner           uniqueidentifier NULL,
    locked_until    bigint           NULL,
    created_at      bigint           NOT NULL,
    last_seen_at    bigint           NOT NULL,
    last_attempt_at bigint           NULL,
    last_error      nvarchar(max)    NULL,
    processed_at    bigint           NULL,
    processed_by    uniqueidentifier NULL,
    response        nvarchar(max)    NULL,
    dismissed_by    nvarchar(510)    NULL,
    dismissed_why   nvarchar(max)    NULL,
    CONSTRAINT {inbox_name}_key UNIQUE NONCLUSTERED (source, message_id)
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_ready%')
    CREATE INDEX {inbox_name}_ready ON {inbox} (visible_at, seq)
        INCLUDE (claim_no, crashes, expires_at, topic) WHERE state = 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_suspects%')
    CREATE INDEX {inbox_name}_suspects ON {inbox} (visible_at, seq) WHERE state = 0 AND crashes > 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_leased%')
    CREATE INDEX {inbox_name}_leased ON {inbox} (visible_at, seq) INCLUDE (owner, claim_no) WHERE state = 1;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_done%')
    CREATE INDEX {inbox_name}_done ON {inbox} (processed_at, seq) WHERE state = 2;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_dead%')
    CREATE INDEX {inbox_name}_dead ON {inbox} (seq) INCLUDE (topic, processed_at) WHERE state = 3;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_expired%')
    CREATE INDEX {inbox_name}_expired ON {inbox} (seq) INCLUDE (topic, processed_at) WHERE state = 4;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_expiring%')
    CREATE INDEX {inbox_name}_expiring ON {inbox} (expires_at, seq) WHERE state = 0 AND expires_at IS NOT NULL;
-- Dead letters whose time to live is not over yet.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_lapsing%')
    CREATE INDEX {inbox_name}_lapsing ON {inbox} (expires_at, seq) WHERE state = 3 AND expires_at IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_dismissed%')
    CREATE INDEX {inbox_name}_dismissed ON {inbox} (processed_at, seq) WHERE state = 7;
-- Seen, or handled outside the queue.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}') AND name LIKE N'{inbox_name}_outside%')
    CREATE INDEX {inbox_name}_outside ON {inbox} (state, last_seen_at) WHERE state IN (5, 6);
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
-- The tables and procedures that belong to each queue.
IF OBJECT_ID(N'{outbox}_failures', N'U') IS NULL
CREATE TABLE {outbox}_failures (
    no      bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {outbox_name}_failures_no PRIMARY KEY CLUSTERED,
    seq     bigint           NOT NULL,
    at      bigint           NOT NULL,
    attempt int              NOT NULL,
    worker  uniqueidentifier NULL,
    error   nvarchar(max)    NULL,
    code    nvarchar(32)     NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{outbox}_failures') AND name LIKE N'{outbox_name}_failures_seq%')
    CREATE INDEX {outbox_name}_failures_seq ON {outbox}_failures (seq, no);
GO

-- Destinations and handlers that are held because they failed.
IF OBJECT_ID(N'{outbox}_holds', N'U') IS NULL
CREATE TABLE {outbox}_holds (
    kind     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL, -- service or topic
    name     nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    owner    uniqueidentifier NOT NULL,
    since    bigint           NOT NULL,
    tried_at bigint           NOT NULL,
    code     nvarchar(32)     NULL,
    why      nvarchar(max)    NULL,
    CONSTRAINT {outbox_name}_holds_place PRIMARY KEY (kind, name, owner)
);
GO

-- Actions of operators: who, what, how many messages, and why.
IF OBJECT_ID(N'{outbox}_audit', N'U') IS NULL
CREATE TABLE {outbox}_audit (
    act      uniqueidentifier NOT NULL,
    what     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL,
    messages bigint           NOT NULL,
    at       bigint           NOT NULL,
    who      nvarchar(510)    NOT NULL,
    why      nvarchar(max)    NULL,
    chosen   nvarchar(max)    NULL,
    CONSTRAINT {outbox_name}_audit_act PRIMARY KEY (act, what)
);
GO

-- The tables and procedures that belong to each queue.
IF OBJECT_ID(N'{inbox}_failures', N'U') IS NULL
CREATE TABLE {inbox}_failures (
    no      bigint           IDENTITY(1, 1) NOT NULL CONSTRAINT {inbox_name}_failures_no PRIMARY KEY CLUSTERED,
    seq     bigint           NOT NULL,
    at      bigint           NOT NULL,
    attempt int              NOT NULL,
    worker  uniqueidentifier NULL,
    error   nvarchar(max)    NULL,
    code    nvarchar(32)     NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{inbox}_failures') AND name LIKE N'{inbox_name}_failures_seq%')
    CREATE INDEX {inbox_name}_failures_seq ON {inbox}_failures (seq, no);
GO

-- Destinations and handlers that are held because they failed.
IF OBJECT_ID(N'{inbox}_holds', N'U') IS NULL
CREATE TABLE {inbox}_holds (
    kind     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL, -- service or topic
    name     nvarchar(510)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    owner    uniqueidentifier NOT NULL,
    since    bigint           NOT NULL,
    tried_at bigint           NOT NULL,
    code     nvarchar(32)     NULL,
    why      nvarchar(max)    NULL,
    CONSTRAINT {inbox_name}_holds_place PRIMARY KEY (kind, name, owner)
);
GO

-- Actions of operators: who, what, how many messages, and why.
IF OBJECT_ID(N'{inbox}_audit', N'U') IS NULL
CREATE TABLE {inbox}_audit (
    act      uniqueidentifier NOT NULL,
    what     nvarchar(16)     COLLATE Latin1_General_100_BIN2 NOT NULL,
    messages bigint           NOT NULL,
    at       bigint           NOT NULL,
    who      nvarchar(510)    NOT NULL,
    why      nvarchar(max)    NULL,
    chosen   nvarchar(max)    NULL,
    CONSTRAINT {inbox_name}_audit_act PRIMARY KEY (act, what)
);
GO

IF OBJECT_ID(N'{outbox}_claim', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_claim AS RETURN 0');
GO

IF OBJECT_ID(N'{inbox}_claim', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {inbox}_claim AS RETURN 0');
GO

IF OBJECT_ID(N'{outbox}_enqueue', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE {outbox}_enqueue AS RETURN 0');
GO

IF OBJECT_ID(N'{s}postroom_schema', N'U') IS NULL
CREATE TABLE {s}postroom_schema (
    outbox        nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    inbox         nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    version       bigint       NOT NULL,
    maintained_at bigint       NOT NULL DEFAULT 0,
    PRIMARY KEY (outbox, inbox)
);
GO

INSERT INTO {s}postroom_schema (outbox, inbox, version)
SELECT N'{outbox_name}', N'{inbox_name}', 1
WHERE NOT EXISTS (SELECT 1 FROM {s}postroom_schema WHERE outbox = N'{outbox_name}' AND inbox = N'{inbox_name}');
GO
