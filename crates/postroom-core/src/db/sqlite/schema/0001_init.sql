-- Postroom's tables on SQLite. Times are microseconds since 1970, ids are 16 bytes.
--
-- A message is written once. Where it stands is written elsewhere, in narrow tables, and it stands in one place:
--   fresh     no claim has looked at it yet: its number is not below the front, and it has no row elsewhere
--   _line     it waits, and a claim has passed it: not due, left out, failed, given back, requeued
--   _held     it is in progress; one row for a run of numbers
--   _done     it is done; one row for a run of numbers
--   _trouble  with a state above 0, it is dead, expired, dismissed, seen, handled elsewhere, or done by hand;
--             with state 0, what happened to it before
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing, 7 dismissed

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT, -- a reused number would stand before the front for ever
    -- A new id sorts by the time it was made (UUIDv7). It is made with functions that old libraries have.
    id              BLOB    NOT NULL DEFAULT (CAST(
        substr(x'{each_byte}', 1 + ({now_ms} >> 40 & 255), 1) || substr(x'{each_byte}', 1 + ({now_ms} >> 32 & 255), 1)
        || substr(x'{each_byte}', 1 + ({now_ms} >> 24 & 255), 1)
        || substr(x'{each_byte}', 1 + ({now_ms} >> 16 & 255), 1)
        || substr(x'{each_byte}', 1 + ({now_ms} >> 8 & 255), 1) || substr(x'{each_byte}', 1 + ({now_ms} & 255), 1)
        || substr(x'707172737475767778797a7b7c7d7e7f', 1 + (random() & 15), 1) || randomblob(1)
        || substr(x'{each_byte}', 129 + (random() & 63), 1) || randomblob(7) AS BLOB)),
    message_id      BLOB,                              -- null: the same as id
    kind            TEXT    NOT NULL DEFAULT 'Event',
    topic           TEXT    NOT NULL,
    destination     TEXT,
    correlation_id  TEXT,
    lane            TEXT,
    visible_at      INTEGER,                           -- null at first if another program wrote the row
    due_at          INTEGER,
    expires_at      INTEGER,
    max_attempts    INTEGER,
    born            INTEGER NOT NULL DEFAULT 0,        -- the state in which it was written
    created_at      INTEGER NOT NULL DEFAULT ({now_ms} * 1000),
    headers         TEXT,
    payload         TEXT    NOT NULL                   -- last: the columns before it are read without its pages
) STRICT;

-- A row that another program inserts has no visible_at. It gets the same checks as the messages of the library, and the
-- columns that follow from the others are filled in. A message with a head start goes into the line at once: it need not
-- wait until a claim has looked at those before it.
CREATE TRIGGER IF NOT EXISTS {outbox}_written AFTER INSERT ON {outbox}
WHEN NEW.visible_at IS NULL OR NEW.visible_at < NEW.created_at
BEGIN
    SELECT CASE
        WHEN length(NEW.id) <> 16 OR NEW.id = zeroblob(16) OR length(NEW.message_id) <> 16
            OR NEW.message_id = zeroblob(16)
            THEN RAISE(ABORT, 'an id must be a UUID as 16 bytes, and not all zeros')
        WHEN NEW.kind NOT IN ('Event', 'Signal', 'Command', 'PushCall', 'Response')
            THEN RAISE(ABORT, 'kind must be Event, Signal, Command, PushCall or Response')
        WHEN NEW.topic = '' OR length(NEW.topic) > 255 OR substr(NEW.topic, -1) = ' ' OR instr(NEW.topic, char(0)) > 0
            OR NEW.topic GLOB '*[' || char(1, 45, 31, 127, 45, 159) || ']*'
            THEN RAISE(ABORT, 'topic must be 1 to 255 characters without controls or a trailing blank')
        WHEN length(NEW.correlation_id) > 255 OR substr(NEW.correlation_id, -1) = ' '
            OR instr(NEW.correlation_id, char(0)) > 0
            OR NEW.correlation_id GLOB '*[' || char(1, 45, 31, 127, 45, 159) || ']*'
            THEN RAISE(ABORT, 'correlation_id must be at most 255 characters without controls or a trailing blank')
        WHEN length(NEW.lane) > 255 OR substr(NEW.lane, -1) = ' ' OR instr(NEW.lane, char(0)) > 0
            OR NEW.lane GLOB '*[' || char(1, 45, 31, 127, 45, 159) || ']*'
            THEN RAISE(ABORT, 'lane must be at most 255 characters without controls or a trailing blank')
        WHEN length(NEW.destination) > 64 OR NEW.destination NOT GLOB '[a-z0-9]*'
            OR NEW.destination GLOB '*[^a-z0-9._-]*'
            THEN RAISE(ABORT, 'destination must be 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit')
        WHEN instr(NEW.payload, char(0)) > 0 THEN RAISE(ABORT, 'payload must not contain U+0000')
        WHEN NEW.max_attempts < 1 THEN RAISE(ABORT, 'max_attempts must be at least 1')
        WHEN NEW.headers IS NOT NULL AND NOT json_valid(NEW.headers) OR json_type(NEW.headers) <> 'object'
            THEN RAISE(ABORT, 'headers must be a JSON object of texts, like {"language": "en"}')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE type <> 'text')
            THEN RAISE(ABORT, 'headers must be a JSON object of texts, like {"language": "en"}')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers)
                     WHERE key = '' OR length(key) > 255 OR substr(key, -1) = ' ' OR instr(key, char(0)) > 0
                         OR key GLOB '*[' || char(1, 45, 31, 127, 45, 159) || ']*')
            THEN RAISE(ABORT, 'a header''s name must be 1 to 255 characters without controls or a trailing blank')
        WHEN (SELECT count(*) > 64 OR sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) > 16384
              FROM json_each(NEW.headers))
            THEN RAISE(ABORT, 'headers must be at most 64, and 16384 bytes in all')
    END;
    UPDATE {outbox}
    SET correlation_id = nullif(NEW.correlation_id, ''), lane = nullif(NEW.lane, ''),
        visible_at = max(NEW.created_at - 86400000000, coalesce(NEW.due_at, NEW.created_at)),
        -- With a destination it lives for a day after it is due, the default of the library.
        expires_at = coalesce(NEW.expires_at, CASE WHEN NEW.destination IS NOT NULL
            THEN max(NEW.created_at, coalesce(NEW.due_at, NEW.created_at)) + 86400000000 END)
    WHERE seq = NEW.seq AND NEW.visible_at IS NULL;
    INSERT INTO {outbox}_trouble (seq, expires_at)
    SELECT seq, expires_at FROM {outbox} WHERE seq = NEW.seq AND visible_at < created_at;
    INSERT INTO {outbox}_line (seq, place, visible_at, expires_at)
    SELECT seq, CASE WHEN destination IS NULL THEN '=' || topic ELSE '>' || destination END, visible_at, expires_at
    FROM {outbox} WHERE seq = NEW.seq AND visible_at < created_at AND lane IS NULL;
    INSERT INTO {outbox}_lane (seq, lane, no, at, expires_at, place)
    SELECT seq, lane, seq << 24, visible_at, expires_at, -1
    FROM {outbox} WHERE seq = NEW.seq AND visible_at < created_at AND lane IS NOT NULL;
END;

CREATE UNIQUE INDEX IF NOT EXISTS {outbox}_id ON {outbox} (id);
CREATE INDEX IF NOT EXISTS {outbox}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {outbox}_lanes ON {outbox} (lane) WHERE lane IS NOT NULL;
CREATE INDEX IF NOT EXISTS {outbox}_expiring ON {outbox} (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    source          TEXT    NOT NULL,
    message_id      TEXT    NOT NULL,
    kind            TEXT    NOT NULL DEFAULT 'Event',
    topic           TEXT    NOT NULL DEFAULT '',
    hash            BLOB, -- the name of the algorithm, a colon, the digest
    correlation_id  TEXT,
    lane            TEXT,
    visible_at      INTEGER,
    due_at          INTEGER,
    expires_at      INTEGER,
    max_attempts    INTEGER,
    born            INTEGER NOT NULL DEFAULT 5,
    created_at      INTEGER NOT NULL DEFAULT ({now_ms} * 1000),
    last_seen_at    INTEGER NOT NULL DEFAULT ({now_ms} * 1000), -- when this content arrived
    dropped_at      INTEGER, -- when its payload was dropped, because it was done long ago
    headers         TEXT,
    payload         TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {inbox}_key ON {inbox} (source, message_id);
CREATE INDEX IF NOT EXISTS {inbox}_lanes ON {inbox} (lane) WHERE lane IS NOT NULL;
CREATE INDEX IF NOT EXISTS {inbox}_expiring ON {inbox} (expires_at) WHERE expires_at IS NOT NULL;

-- Messages that arrived again: when that was, and their hash if the first arrival had none.
CREATE TABLE IF NOT EXISTS {inbox}_seen (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    hash BLOB
) STRICT;

{each}
-- A message that is only known, or has a head start.
CREATE TRIGGER IF NOT EXISTS {inbox}_known AFTER INSERT ON {inbox} WHEN NEW.born = 5 OR NEW.visible_at < NEW.created_at
BEGIN
    INSERT INTO {inbox}_trouble (seq, state, at, expires_at)
    VALUES (NEW.seq, NEW.born, CASE WHEN NEW.born = 5 THEN NEW.last_seen_at END, NEW.expires_at);
    INSERT INTO {inbox}_line (seq, place, visible_at, expires_at)
    SELECT NEW.seq, '=' || NEW.topic, NEW.visible_at, NEW.expires_at WHERE NEW.born = 0 AND NEW.lane IS NULL;
    INSERT INTO {inbox}_lane (seq, lane, no, at, expires_at, place)
    SELECT NEW.seq, NEW.lane, NEW.seq << 24, NEW.visible_at, NEW.expires_at, -1
    WHERE NEW.born = 0 AND NEW.lane IS NOT NULL;
END;

-- Its content arrives.
CREATE TRIGGER IF NOT EXISTS {inbox}_accepted AFTER UPDATE OF visible_at ON {inbox}
WHEN OLD.visible_at IS NULL AND NEW.visible_at IS NOT NULL
BEGIN
    UPDATE {inbox}_trouble SET state = 0, at = NULL, expires_at = NEW.expires_at WHERE seq = NEW.seq;
    INSERT INTO {inbox}_line (seq, place, visible_at, expires_at, crashes)
    SELECT NEW.seq, '=' || NEW.topic, NEW.visible_at, NEW.expires_at, crashes
    FROM {inbox}_trouble WHERE seq = NEW.seq AND NEW.lane IS NULL;
    INSERT INTO {inbox}_lane (seq, lane, no, at, expires_at, place)
    SELECT NEW.seq, NEW.lane, 1 + max((SELECT max(seq) FROM {inbox}) << 24,
            coalesce((SELECT max(no) FROM {inbox}_lane WHERE lane = NEW.lane), 0)),
        NEW.visible_at, NEW.expires_at, -1
    WHERE NEW.lane IS NOT NULL;
END;

-- Messages that are only known are deleted by the time of their last arrival.
CREATE TRIGGER IF NOT EXISTS {inbox}_seen_first AFTER INSERT ON {inbox}_seen
BEGIN
    UPDATE {inbox}_trouble SET at = NEW.at WHERE seq = NEW.seq AND state IN (5, 6);
END;

CREATE TRIGGER IF NOT EXISTS {inbox}_seen_again AFTER UPDATE ON {inbox}_seen
BEGIN
    UPDATE {inbox}_trouble SET at = NEW.at WHERE seq = NEW.seq AND state IN (5, 6);
END;

-- New content arrived: earlier arrivals no longer count.
CREATE TRIGGER IF NOT EXISTS {inbox}_replaced AFTER UPDATE OF last_seen_at ON {inbox}
BEGIN
    DELETE FROM {inbox}_seen WHERE seq = NEW.seq;
END;

CREATE TRIGGER IF NOT EXISTS {inbox}_forgotten AFTER DELETE ON {inbox}
BEGIN
    DELETE FROM {inbox}_seen WHERE seq = OLD.seq;
END;

-- Unique keys: which message has a key. It has it until that time. Without one, it has it while it waits, or until it is
-- done, dead, expired or dismissed. Whoever inserts a row takes the key for a message that is inserted next. If another
-- message has the key, or this one is stored already, no row is inserted, and the message must not be either. With
-- replaces = 1, a message that waits is dismissed instead.
CREATE TABLE IF NOT EXISTS {outbox}_unique (
    name       TEXT    NOT NULL PRIMARY KEY,
    id         BLOB    NOT NULL,            -- of the message
    until      INTEGER,
    until_done INTEGER NOT NULL DEFAULT 0,
    replaces   INTEGER NOT NULL DEFAULT 0,
    replaced   BLOB,                        -- the message that was dismissed for it
    at         INTEGER NOT NULL DEFAULT ({now_ms} * 1000),
    look_at    INTEGER NOT NULL DEFAULT ({now_ms} * 1000 + 3600000000) -- when to look whether the row is still needed
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {outbox}_unique_look ON {outbox}_unique (look_at);

CREATE TRIGGER IF NOT EXISTS {outbox}_unique_taken BEFORE INSERT ON {outbox}_unique
BEGIN
    SELECT CASE
        WHEN NEW.name = '' OR length(NEW.name) > 255 OR substr(NEW.name, -1) = ' ' OR instr(NEW.name, char(0)) > 0
            OR NEW.name GLOB '*[' || char(1, 45, 31, 127, 45, 159) || ']*'
            THEN RAISE(ABORT, 'a unique key must be 1 to 255 characters without controls or a trailing blank')
        WHEN length(NEW.id) <> 16 OR NEW.id = zeroblob(16)
            THEN RAISE(ABORT, 'an id must be a UUID as 16 bytes, and not all zeros')
    END;
    -- A message that is stored already takes no key again: its key may have passed to a newer one.
    SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM {outbox} WHERE id = NEW.id);
    -- One that waits and is about to expire will not be handled.
    SELECT RAISE(IGNORE) FROM (
        SELECT u.until, u.until_done, coalesce(NEW.at, {now_ms} * 1000) AS now, (SELECT s.state FROM {outbox}_state AS s
            WHERE s.id = u.id AND (s.state > 0 OR coalesce(s.expires_at > coalesce(NEW.at, {now_ms} * 1000), true))) AS state
        FROM {outbox}_unique AS u WHERE u.name = NEW.name AND u.id <> NEW.id)
    WHERE CASE WHEN until IS NOT NULL THEN until > now WHEN until_done THEN state IN (0, 1) ELSE state = 0 END
      AND NOT (coalesce(NEW.replaces, 0) AND state IS 0);
    -- If the message before it still has the key, it waits and is replaced.
    UPDATE {outbox}_unique SET replaced = CASE
        WHEN coalesce(until > coalesce(NEW.at, {now_ms} * 1000), true) AND 0 = (
            SELECT s.state FROM {outbox}_state AS s WHERE s.id = {outbox}_unique.id
              AND coalesce(s.expires_at > coalesce(NEW.at, {now_ms} * 1000), true)) THEN id END
    WHERE name = NEW.name AND id <> NEW.id;
    UPDATE {outbox}_state SET state = 7, visible_at = NULL, processed_at = coalesce(NEW.at, {now_ms} * 1000),
        dismissed_by = 'postroom', dismissed_why = 'replaced under its unique key'
    WHERE id = (SELECT replaced FROM {outbox}_unique WHERE name = NEW.name AND id <> NEW.id AND id = replaced);
END;

-- One mark for each handler of a message that does not come through the inbox.
CREATE TABLE IF NOT EXISTS {inbox}_marks (
    source     TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    handler    TEXT    NOT NULL,
    topic      TEXT    NOT NULL, -- of the message; empty if its sender names none
    marked_at  INTEGER NOT NULL,
    PRIMARY KEY (source, message_id, handler)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {inbox}_marks_age ON {inbox}_marks (handler, marked_at);

CREATE TABLE IF NOT EXISTS postroom_schema (
    outbox        TEXT    NOT NULL,
    inbox         TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    needs         INTEGER, -- the version that a program must know at least; null: this one
    maintained_at INTEGER NOT NULL DEFAULT 0,
    payloads_from INTEGER NOT NULL DEFAULT 0, -- the inbox keeps the payloads of what was done later
    PRIMARY KEY (outbox, inbox)
) STRICT, WITHOUT ROWID;

INSERT INTO postroom_schema (outbox, inbox, version) VALUES ('{outbox}', '{inbox}', 2)
ON CONFLICT (outbox, inbox) DO NOTHING;
