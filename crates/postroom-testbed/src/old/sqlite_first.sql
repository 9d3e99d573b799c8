-- Postroom's tables on SQLite. Times are microseconds since 1970, ids are 16 bytes.
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT, -- a reused number would let a stale ack settle another message
    id              BLOB    NOT NULL,
    message_id      BLOB,                              -- null: the same as id
    kind            TEXT    NOT NULL DEFAULT 'Event',
    topic           TEXT    NOT NULL,
    payload         TEXT    NOT NULL,
    destination     TEXT,
    headers         TEXT,
    correlation_id  TEXT,
    state           INTEGER NOT NULL DEFAULT 0,
    visible_at      INTEGER DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    due_at          INTEGER,
    next_attempt_at INTEGER,
    expires_at      INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    max_attempts    INTEGER,
    crashes         INTEGER NOT NULL DEFAULT 0,
    claim_no        INTEGER NOT NULL DEFAULT 0,
    owner           BLOB,
    locked_until    INTEGER,
    created_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    last_attempt_at INTEGER,
    last_error      TEXT,
    processed_at    INTEGER,
    processed_by    BLOB,
    response        TEXT
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {outbox}_id ON {outbox} (id);
CREATE INDEX IF NOT EXISTS {outbox}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;
-- Rows in line and rows on lease; the row number is the last part of every index.
CREATE INDEX IF NOT EXISTS {outbox}_work ON {outbox} (state, visible_at) WHERE visible_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS {outbox}_expiring ON {outbox} (expires_at)
    WHERE expires_at IS NOT NULL AND visible_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS {outbox}_finished ON {outbox} (state, processed_at) WHERE processed_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {outbox}_failures (
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker  BLOB,
    error   TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS {outbox}_failures_seq ON {outbox}_failures (seq);

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    source          TEXT    NOT NULL,
    message_id      TEXT    NOT NULL,
    kind            TEXT    NOT NULL DEFAULT 'Event',
    topic           TEXT    NOT NULL DEFAULT '',
    payload         TEXT    NOT NULL DEFAULT '',
    hash            BLOB,
    headers         TEXT,
    correlation_id  TEXT,
    state           INTEGER NOT NULL DEFAULT 5,
    visible_at      INTEGER,
    due_at          INTEGER,
    next_attempt_at INTEGER,
    expires_at      INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    max_attempts    INTEGER,
    crashes         INTEGER NOT NULL DEFAULT 0,
    claim_no        INTEGER NOT NULL DEFAULT 0,
    owner           BLOB,
    locked_until    INTEGER,
    created_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    last_seen_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    last_attempt_at INTEGER,
    last_error      TEXT,
    processed_at    INTEGER,
    processed_by    BLOB,
    response        TEXT
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {inbox}_key ON {inbox} (source, message_id);
CREATE INDEX IF NOT EXISTS {inbox}_work ON {inbox} (state, visible_at) WHERE visible_at IS NOT NULL;
-- Seen, or handled outside the queue.
CREATE INDEX IF NOT EXISTS {inbox}_outside ON {inbox} (state) WHERE visible_at IS NULL AND processed_at IS NULL;
CREATE INDEX IF NOT EXISTS {inbox}_finished ON {inbox} (state, processed_at) WHERE processed_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {inbox}_failures (
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker  BLOB,
    error   TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS {inbox}_failures_seq ON {inbox}_failures (seq);

-- One mark for each handler of a message that arrives by some other way than the inbox.
CREATE TABLE IF NOT EXISTS {inbox}_marks (
    source     TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    handler    TEXT    NOT NULL,
    marked_at  INTEGER NOT NULL,
    PRIMARY KEY (source, message_id, handler)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {inbox}_marks_age ON {inbox}_marks (handler, marked_at);

CREATE TABLE IF NOT EXISTS postroom_schema (
    outbox        TEXT    NOT NULL,
    inbox         TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    maintained_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (outbox, inbox)
) STRICT, WITHOUT ROWID;

INSERT INTO postroom_schema (outbox, inbox, version) VALUES ('{outbox}', '{inbox}', 1)
ON CONFLICT (outbox, inbox) DO UPDATE SET version = excluded.version WHERE version < excluded.version;
