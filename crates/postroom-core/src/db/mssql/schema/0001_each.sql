-- What waits. place: = and the topic of a message that is handled here, > and the destination of one that is sent.
-- Its rows are inserted and deleted, never changed.
IF OBJECT_ID(N'{t}_line', N'U') IS NULL
CREATE TABLE {t}_line (
    visible_at bigint        NOT NULL,
    seq        bigint        NOT NULL,
    place      nvarchar(511) COLLATE Latin1_General_100_BIN2 NOT NULL,
    expires_at bigint        NULL,
    crashes    int           NOT NULL DEFAULT 0,
    claims     bigint        NOT NULL DEFAULT 0, -- how often it has been claimed
    bytes      bigint        NOT NULL,           -- of its payload
    CONSTRAINT {n}_line_turn PRIMARY KEY CLUSTERED (visible_at, seq)
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_line') AND name LIKE N'{n}_line_expiring%')
    CREATE INDEX {n}_line_expiring ON {t}_line (expires_at) WHERE expires_at IS NOT NULL;
-- Suspects are tried separately from the rest.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_line') AND name LIKE N'{n}_line_suspects%')
    CREATE INDEX {n}_line_suspects ON {t}_line (visible_at, seq) WHERE crashes > 0;
GO

-- What a claim took. It is held as long as done_at is 0: a settle must find owner and claim number as they are. An ack
-- changes numbers in their place.
IF OBJECT_ID(N'{t}_taken', N'U') IS NULL
CREATE TABLE {t}_taken (
    seq      bigint           NOT NULL CONSTRAINT {n}_taken_seq PRIMARY KEY CLUSTERED,
    claim_no bigint           NOT NULL,
    owner    uniqueidentifier NULL, -- who holds it, or who is done with it
    at       bigint           NULL, -- when it was claimed
    until    bigint           NULL, -- when its lease ends
    done_at  bigint           NOT NULL DEFAULT 0,
    response nvarchar(max)    NULL  -- an answer that came with the ack
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_taken') AND name LIKE N'{n}_taken_held%')
    CREATE INDEX {n}_taken_held ON {t}_taken (until, seq) INCLUDE (owner, claim_no) WHERE done_at = 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_taken') AND name LIKE N'{n}_taken_done%')
    CREATE INDEX {n}_taken_done ON {t}_taken (done_at, seq) WHERE done_at > 0;
GO

IF OBJECT_ID(N'{t}_trouble', N'U') IS NULL
CREATE TABLE {t}_trouble (
    seq             bigint           NOT NULL CONSTRAINT {n}_trouble_seq PRIMARY KEY CLUSTERED,
    state           smallint         NOT NULL DEFAULT 0,
    at              bigint           NULL, -- when it entered its state; when it arrived last, if it is only known
    processed_by    uniqueidentifier NULL,
    attempts        int              NOT NULL DEFAULT 0,
    crashes         int              NOT NULL DEFAULT 0,
    claims          bigint           NOT NULL DEFAULT 0,
    visible_at      bigint           NULL, -- where it stands in the line, instead of the message's own
    next_attempt_at bigint           NULL,
    last_attempt_at bigint           NULL,
    expires_at      bigint           NULL, -- instead of the message's own
    last_error      nvarchar(max)    NULL,
    dismissed_by    nvarchar(510)    NULL,
    dismissed_why   nvarchar(max)    NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_trouble') AND name LIKE N'{n}_trouble_ended%')
    CREATE INDEX {n}_trouble_ended ON {t}_trouble (state, seq) INCLUDE (at) WHERE state > 0;
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_trouble') AND name LIKE N'{n}_trouble_old%')
    CREATE INDEX {n}_trouble_old ON {t}_trouble (state, at) WHERE state > 0;
-- Dead letters whose time to live is not over yet.
IF NOT EXISTS (SELECT 1 FROM sys.indexes
               WHERE object_id = OBJECT_ID(N'{t}_trouble') AND name LIKE N'{n}_trouble_lapsing%')
    CREATE INDEX {n}_trouble_lapsing ON {t}_trouble (expires_at, seq) WHERE state = 3 AND expires_at IS NOT NULL;
GO

-- Answers that came apart from the ack.
IF OBJECT_ID(N'{t}_answer', N'U') IS NULL
CREATE TABLE {t}_answer (
    seq      bigint        NOT NULL CONSTRAINT {n}_answer_seq PRIMARY KEY CLUSTERED,
    response nvarchar(max) NOT NULL
);
GO

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

-- Lanes: messages that name the same lane are handled in the order of their commits. A message without one has no row
-- here. place: 0 waits for its turn, 1 is in the line or in progress, 2 died, 3 cannot go on by itself.
IF OBJECT_ID(N'{t}_lane', N'U') IS NULL
CREATE TABLE {t}_lane (
    lane  nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    no    bigint        NOT NULL, -- in the order of commits
    seq   bigint        NOT NULL,
    at    bigint        NOT NULL,
    place smallint      NOT NULL DEFAULT 0,
    CONSTRAINT {n}_lane_turn PRIMARY KEY NONCLUSTERED (lane, no)
);
GO

-- Lanes to look at, because something arrived or ended. A note is written and deleted, never changed.
IF OBJECT_ID(N'{t}_lane_notes', N'U') IS NULL
CREATE TABLE {t}_lane_notes (
    id   bigint        IDENTITY(1, 1) NOT NULL CONSTRAINT {n}_lane_notes_id PRIMARY KEY CLUSTERED,
    lane nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    past bigint        NULL, -- the number that left
    seq  bigint        NULL, -- the message that arrived
    at   bigint        NULL
);
GO

-- What an operator set. kind: queue; topic or service, for its messages; lane; lanes, for those of a topic
IF OBJECT_ID(N'{t}_rules', N'U') IS NULL
CREATE TABLE {t}_rules (
    kind       nvarchar(16)  COLLATE Latin1_General_100_BIN2 NOT NULL,
    name       nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    places     int           NULL, -- how many at once
    on_dead    smallint      NULL, -- 0 block, 1 skip, 2 newest only
    every      bigint        NULL, -- microseconds from one to the next
    burst      int           NULL,
    paused_at  bigint        NULL,
    paused_by  nvarchar(510) NULL,
    paused_why nvarchar(max) NULL,
    CONSTRAINT {n}_rules_for PRIMARY KEY NONCLUSTERED (kind, name)
);
GO

-- When the next message of a place with a rate may start.
IF OBJECT_ID(N'{t}_rates', N'U') IS NULL
CREATE TABLE {t}_rates (
    kind nvarchar(16)  COLLATE Latin1_General_100_BIN2 NOT NULL,
    name nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
    tat  bigint        NOT NULL,
    CONSTRAINT {n}_rates_for PRIMARY KEY NONCLUSTERED (kind, name)
);
GO

-- Messages in progress that are to stop: under which claim, since when, who asked and why. An ack does not look here:
-- it wins, and the row is swept away. Every other end of the claim dismisses the message.
IF OBJECT_ID(N'{t}_stops', N'U') IS NULL
CREATE TABLE {t}_stops (
    seq      bigint        NOT NULL,
    claim_no bigint        NOT NULL,
    at       bigint        NOT NULL,
    who      nvarchar(510) NOT NULL,
    why      nvarchar(max) NOT NULL,
    CONSTRAINT {n}_stops_of PRIMARY KEY CLUSTERED (seq, claim_no)
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

-- A message that is deleted leaves its place, and what is known of it goes too.
IF OBJECT_ID(N'{t}_deleted', N'TR') IS NULL
EXEC (N'CREATE TRIGGER {t}_deleted ON {t} AFTER DELETE
AS
BEGIN
    SET NOCOUNT ON;
    DELETE l FROM {t}_line AS l JOIN deleted AS d ON d.seq = l.seq LEFT JOIN {t}_trouble AS t ON t.seq = d.seq
    WHERE l.visible_at = COALESCE(t.visible_at, d.visible_at);
    DELETE FROM {t}_taken WHERE seq IN (SELECT d.seq FROM deleted AS d);
    DELETE FROM {t}_trouble WHERE seq IN (SELECT d.seq FROM deleted AS d);
    DELETE FROM {t}_answer WHERE seq IN (SELECT d.seq FROM deleted AS d);
    DELETE FROM {t}_failures WHERE seq IN (SELECT d.seq FROM deleted AS d);
END');
GO

{views}
{move}
{claim}
