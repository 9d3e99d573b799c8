-- Postroom's tables on PostgreSQL. Times are microseconds since 1970 in UTC.
--
-- A message is written once. Where it stands is written elsewhere, in narrow tables, and it stands in one place:
--   _line     it waits
--   _held     it is in progress, under a lease that it shares with the other messages of the same claim
--   _lane     with place 0, it waits for its turn in its lane; with another place, it stands elsewhere too
--   _done     it is done; one row for a run of numbers
--   _trouble  with a state above 0, it is dead, expired, dismissed, seen, handled elsewhere, or done by hand;
--             with state 0, what happened to it before
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing, 7 dismissed

{create_schema}

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid     NOT NULL,
    message_id      uuid,    -- null: the same as id
    visible_at      bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, -- at first
    created_at      bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    due_at          bigint,
    expires_at      bigint,
    max_attempts    integer,
    born            smallint NOT NULL DEFAULT 0, -- the state in which it was written
    kind            text     NOT NULL DEFAULT 'Event',
    topic           text     NOT NULL,
    destination     text,
    correlation_id  text,
    lane            text     COLLATE "C",
    headers         text,
    payload         text     NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS {outbox_name}_id ON {outbox} (id);
CREATE INDEX IF NOT EXISTS {outbox_name}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source          text     NOT NULL COLLATE "C",
    message_id      text     NOT NULL COLLATE "C",
    visible_at      bigint,  -- at first; null if the message was only seen
    created_at      bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    last_seen_at    bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, -- this content
    due_at          bigint,
    expires_at      bigint,
    max_attempts    integer,
    born            smallint NOT NULL DEFAULT 5,
    kind            text     NOT NULL DEFAULT 'Event',
    topic           text     NOT NULL DEFAULT '',
    hash            bytea,   -- the name of the algorithm, a colon, the digest
    correlation_id  text,
    lane            text     COLLATE "C",
    dropped_at      bigint,  -- when its payload was dropped, because it was done long ago
    headers         text,
    payload         text     NOT NULL DEFAULT ''
);

CREATE UNIQUE INDEX IF NOT EXISTS {inbox_name}_key ON {inbox} (source, message_id);

-- Messages that arrived again: when that was, and their hash if the first arrival had none.
CREATE TABLE IF NOT EXISTS {inbox}_seen (
    seq  bigint PRIMARY KEY,
    at   bigint NOT NULL,
    hash bytea
);

{each}
-- Whether a message is only known at this moment, whatever the statement that asks has seen before. It stays so until
-- the transaction ends.
CREATE OR REPLACE FUNCTION {inbox}_is_seen(bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $is_seen$
BEGIN
    PERFORM 1 FROM {inbox}_trouble WHERE seq = $1 AND state = 5 FOR UPDATE;
    RETURN FOUND;
END
$is_seen$;

-- The content of a message arrives that was only known.
CREATE OR REPLACE FUNCTION {inbox}_accepted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $accepted$
BEGIN
    UPDATE {inbox}_trouble SET state = 0, at = NULL, visible_at = NULL, expires_at = NEW.expires_at
    WHERE seq = NEW.seq AND state = 5;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the message changed at the same moment' USING ERRCODE = 'serialization_failure';
    END IF;
    IF NEW.lane IS NOT NULL THEN
        INSERT INTO {inbox}_lane_notes (seq, expires_at, lane) VALUES (NEW.seq, NEW.expires_at, NEW.lane);
    ELSE
        INSERT INTO {inbox}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
        SELECT NEW.visible_at, NEW.seq, '=' || NEW.topic, NEW.expires_at, least(crashes, 32767), claims,
            octet_length(NEW.payload)
        FROM {inbox}_trouble WHERE seq = NEW.seq;
    END IF;
    RETURN NULL;
END
$accepted$;

REVOKE EXECUTE ON FUNCTION {inbox}_accepted() FROM PUBLIC;
DROP TRIGGER IF EXISTS {inbox_name}_accepted ON {inbox};
CREATE TRIGGER {inbox_name}_accepted AFTER UPDATE OF visible_at ON {inbox} FOR EACH ROW
WHEN (OLD.visible_at IS NULL AND NEW.visible_at IS NOT NULL) EXECUTE FUNCTION {inbox}_accepted();

-- New content arrived: earlier arrivals no longer count.
CREATE OR REPLACE FUNCTION {inbox}_replaced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $replaced$
BEGIN
    DELETE FROM {inbox}_seen WHERE seq = NEW.seq;
    RETURN NULL;
END
$replaced$;

REVOKE EXECUTE ON FUNCTION {inbox}_replaced() FROM PUBLIC;
DROP TRIGGER IF EXISTS {inbox_name}_replaced ON {inbox};
CREATE TRIGGER {inbox_name}_replaced AFTER UPDATE OF last_seen_at ON {inbox} FOR EACH ROW
EXECUTE FUNCTION {inbox}_replaced();

-- Messages that are only known are deleted by the time of their last arrival.
CREATE OR REPLACE FUNCTION {inbox}_again() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $again$
BEGIN
    UPDATE {inbox}_trouble SET at = NEW.at WHERE seq = NEW.seq AND state IN (5, 6);
    RETURN NULL;
END
$again$;

REVOKE EXECUTE ON FUNCTION {inbox}_again() FROM PUBLIC;
DROP TRIGGER IF EXISTS {inbox_name}_again ON {inbox}_seen;
CREATE TRIGGER {inbox_name}_again AFTER INSERT OR UPDATE ON {inbox}_seen FOR EACH ROW
EXECUTE FUNCTION {inbox}_again();

CREATE OR REPLACE FUNCTION {inbox}_forgotten() RETURNS trigger LANGUAGE plpgsql AS $forgotten$
BEGIN
    DELETE FROM {inbox}_seen WHERE seq IN (SELECT seq FROM deleted);
    RETURN NULL;
END
$forgotten$;

DROP TRIGGER IF EXISTS {inbox_name}_forgotten ON {inbox};
CREATE TRIGGER {inbox_name}_forgotten AFTER DELETE ON {inbox} REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
EXECUTE FUNCTION {inbox}_forgotten();

-- Unique keys: which message has a key. It has it until that time. Without one, it has it while it waits, or until it is
-- done, dead, expired or dismissed.
CREATE TABLE IF NOT EXISTS {outbox}_unique (
    name       text    NOT NULL COLLATE "C" PRIMARY KEY,
    id         uuid    NOT NULL, -- of the message
    until      bigint,
    until_done boolean NOT NULL DEFAULT false,
    replaced   uuid,             -- the message that was dismissed for it
    at         bigint  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    look_at    bigint  NOT NULL  -- when to look whether the row is still needed
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS {outbox_name}_unique_look ON {outbox}_unique (look_at);

-- An INSERT here takes a key for a message that is inserted next, in the same transaction. If another message has the
-- key, or this one is stored already, no row is counted, and the message must not be inserted. If replaces is true, a
-- message that waits is dismissed instead.
CREATE OR REPLACE VIEW {outbox}_take AS
SELECT name, id, until, until_done, false AS replaces, at, look_at FROM {outbox}_unique;

-- A message that waits keeps waiting until the transaction that asks has ended: its place in the line is locked, and
-- claims pass it. So it is handled after that transaction's commit, or is not counted as waiting.
CREATE OR REPLACE FUNCTION {outbox}_key_taken() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $key_taken$
DECLARE
    had record;
    its record;
    waits boolean := false;
    has_key boolean;
BEGIN
    IF coalesce(length(NEW.name), 0) NOT BETWEEN 1 AND 255 OR NEW.name ~ '[\u0001-\u001f\u007f-\u009f]'
        OR right(NEW.name, 1) = ' ' THEN
        RAISE EXCEPTION 'a unique key must be 1 to 255 characters without controls or a trailing blank'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NEW.id IS NULL OR NEW.id = '00000000-0000-0000-0000-000000000000' THEN
        RAISE EXCEPTION 'an id must be a UUID, and not all zeros' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    NEW.at := coalesce(NEW.at, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    NEW.look_at := coalesce(NEW.look_at, NEW.until, NEW.at + 3600000000);
    -- A message that is stored already takes no key again: its key may have passed to a newer one.
    IF EXISTS (SELECT 1 FROM {outbox} WHERE id = NEW.id) THEN
        RETURN NULL;
    END IF;
    LOOP
        INSERT INTO {outbox}_unique (name, id, until, until_done, at, look_at)
        VALUES (NEW.name, NEW.id, NEW.until, coalesce(NEW.until_done, false), NEW.at, NEW.look_at)
        ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            RETURN NEW;
        END IF;
        SELECT * INTO had FROM {outbox}_unique WHERE name = NEW.name FOR UPDATE;
        -- If not, somebody has deleted it.
        EXIT WHEN FOUND;
    END LOOP;
    IF EXISTS (SELECT 1 FROM {outbox} WHERE id = NEW.id) THEN
        RETURN NULL;
    ELSIF had.id = NEW.id THEN
        RETURN NEW;
    END IF;
    -- Whoever claims the message or moves it within its lane does so in an instant, so it is waited for.
    FOR attempt IN 1..10 LOOP
        -- One that waits and is about to expire will not be handled.
        SELECT * INTO its FROM {outbox}_state
        WHERE id = had.id AND (state > 0 OR coalesce(expires_at > NEW.at, true));
        IF its.state = -1 AND its.lane IS NULL THEN
            RAISE EXCEPTION 'the unique key % is used twice in one statement', quote_literal(NEW.name)
                USING ERRCODE = 'invalid_parameter_value';
        ELSIF its.state = -1 THEN
            -- It was written in this transaction, and enters its lane with the commit.
            SET CONSTRAINTS {outbox}_laned IMMEDIATE;
            SET CONSTRAINTS {outbox}_laned DEFERRED;
            CONTINUE;
        END IF;
        EXIT WHEN its.state IS DISTINCT FROM 0;
        IF its.lane IS NOT NULL THEN
            PERFORM 1 FROM {outbox}_lane WHERE seq = its.seq AND place = 0 FOR UPDATE;
            waits := FOUND;
        END IF;
        IF NOT waits THEN
            PERFORM 1 FROM {outbox}_line WHERE visible_at = its.visible_at AND seq = its.seq FOR UPDATE;
            waits := FOUND;
        END IF;
        EXIT WHEN waits;
    END LOOP;
    has_key := CASE WHEN had.until IS NOT NULL THEN had.until > NEW.at
                    WHEN had.until_done THEN coalesce(its.state IN (0, 1), false) ELSE waits END;
    IF has_key AND NOT (waits AND coalesce(NEW.replaces, false)) THEN
        RETURN NULL;
    END IF;
    IF has_key THEN
        UPDATE {outbox}_state SET state = 7, visible_at = NULL, processed_at = NEW.at, dismissed_by = 'postroom',
            dismissed_why = 'replaced under its unique key'
        WHERE id = had.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the message changed at the same moment' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    UPDATE {outbox}_unique SET id = NEW.id, until = NEW.until, until_done = coalesce(NEW.until_done, false),
        replaced = CASE WHEN has_key THEN had.id END, at = NEW.at, look_at = NEW.look_at
    WHERE name = NEW.name;
    RETURN NEW;
END
$key_taken$;

REVOKE EXECUTE ON FUNCTION {outbox}_key_taken() FROM PUBLIC;
DROP TRIGGER IF EXISTS {outbox_name}_key_taken ON {outbox}_take;
CREATE TRIGGER {outbox_name}_key_taken INSTEAD OF INSERT ON {outbox}_take FOR EACH ROW
EXECUTE FUNCTION {outbox}_key_taken();

-- One mark for each handler of a message that does not come through the inbox.
CREATE TABLE IF NOT EXISTS {inbox}_marks (
    source     text   NOT NULL COLLATE "C",
    message_id text   NOT NULL COLLATE "C",
    handler    text   NOT NULL COLLATE "C",
    topic      text   NOT NULL, -- of the message; empty if its sender names none
    marked_at  bigint NOT NULL,
    PRIMARY KEY (source, message_id, handler)
);

CREATE INDEX IF NOT EXISTS {inbox_name}_marks_age ON {inbox}_marks (handler, marked_at);

-- For services in any language, in their own transaction: SELECT {outbox}_enqueue('order.placed', '{"order": 7}').
-- The same message for the same destination is stored once. It runs with the permissions of its caller, who needs the
-- permission to insert.
-- The commit wakes the workers, unless notify is false: commits that notify wait for each other.
CREATE OR REPLACE FUNCTION {outbox}_enqueue(
    topic text, payload text, destination text DEFAULT NULL, message_id uuid DEFAULT NULL, headers text DEFAULT NULL,
    correlation_id text DEFAULT NULL, due_at timestamptz DEFAULT NULL, kind text DEFAULT 'Event',
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true, lane text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $enqueue$
#variable_conflict use_column
DECLARE
    checked record;
    parsed jsonb;
    answer uuid;
BEGIN
    -- The same checks that the library makes on its own messages.
    IF $2 IS NULL THEN
        RAISE EXCEPTION 'payload must not be null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $8 NOT IN ('Event', 'Signal', 'Command', 'PushCall', 'Response') THEN
        RAISE EXCEPTION 'kind must be Event, Signal, Command, PushCall or Response, and is %', quote_literal($8)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $3 !~ '^[a-z0-9][a-z0-9._-]*$' OR length($3) > 64 THEN
        RAISE EXCEPTION 'destination must be 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit, and is %',
            quote_literal($3) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $4 = '00000000-0000-0000-0000-000000000000' THEN
        RAISE EXCEPTION 'message_id must not be all zeros' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $9 <= interval '0' THEN
        RAISE EXCEPTION 'ttl must be longer than zero' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $10 < 1 THEN
        RAISE EXCEPTION 'max_attempts must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $5 IS NOT NULL THEN
        BEGIN
            parsed := $5::jsonb;
        EXCEPTION WHEN data_exception THEN
            parsed := 'null';
        END;
        IF jsonb_typeof(parsed) <> 'object'
            OR EXISTS (SELECT 1 FROM jsonb_each(parsed) AS h WHERE jsonb_typeof(h.value) <> 'string') THEN
            RAISE EXCEPTION 'headers must be a JSON object of texts, like {"language": "en"}'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF (SELECT count(*) > 64 OR sum(octet_length(h.key) + octet_length(h.value)) > 16384
            FROM jsonb_each_text(parsed) AS h) THEN
            RAISE EXCEPTION 'headers must be at most 64, and 16384 bytes in all'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    FOR checked IN SELECT * FROM (VALUES ('topic', coalesce($1, '')), ('correlation_id', nullif($6, '')),
                                         ('lane', nullif($12, ''))) AS n (what, name)
        UNION ALL SELECT 'a header''s name', k FROM jsonb_object_keys(coalesce(parsed, '{}')) AS k
    LOOP
        IF length(checked.name) NOT BETWEEN 1 AND 255 OR checked.name ~ '[\u0001-\u001f\u007f-\u009f]'
            OR right(checked.name, 1) = ' ' THEN
            RAISE EXCEPTION '% must be 1 to 255 characters without controls or a trailing blank', checked.what
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    WITH asked AS (
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
               (extract(epoch FROM $7) * 1000000)::bigint AS due,
               uuid_send(coalesce($4, gen_random_uuid())) AS random
    ), named AS (
        -- A new id sorts by the time it was made (UUIDv7).
        SELECT now, due, CASE WHEN $4 IS NOT NULL THEN random
            ELSE set_byte(overlay(random PLACING substring(int8send(now / 1000) FROM 3) FROM 1 FOR 6),
                          6, (get_byte(random, 6) & 15) | 112) END AS message
        FROM asked
    ), hashed AS (
        SELECT now, due, message,
               overlay(substring(sha256(message || convert_to($3, 'UTF8')) FROM 1 FOR 16)
                       PLACING substring(message FROM 1 FOR 6) FROM 1 FOR 6) AS digest
        FROM named
    ), told AS (
        SELECT now, due, encode(message, 'hex')::uuid AS message,
               CASE WHEN $3 IS NULL THEN encode(message, 'hex')::uuid
                    ELSE encode(set_byte(set_byte(digest, 6, (get_byte(digest, 6) & 15) | 128),
                                         8, (get_byte(digest, 8) & 63) | 128), 'hex')::uuid END AS id
        FROM hashed
    ), stored AS (
        INSERT INTO {outbox} (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at,
                              due_at, expires_at, max_attempts, created_at, lane)
        SELECT id, nullif(message, id), coalesce($8, 'Event'), $1, $2, $3, $5, nullif($6, ''),
               CASE WHEN due IS NULL THEN now ELSE greatest(due, now - 86400000000) END, due,
               CASE WHEN $9 IS NOT NULL THEN now + (extract(epoch FROM $9) * 1000000)::bigint
                    WHEN $3 IS NOT NULL THEN greatest(now, due) + 86400000000 END, $10, now, nullif($12, '')
        FROM told
        -- Naming the column would require the permission to read it.
        ON CONFLICT DO NOTHING
    )
    SELECT message INTO answer FROM told;
    IF $11 THEN
        PERFORM pg_notify('{channel}', 'outbox');
    END IF;
    RETURN answer;
END
$enqueue$;

-- The same for payloads that are JSON already.
CREATE OR REPLACE FUNCTION {outbox}_enqueue(
    topic text, payload jsonb, destination text DEFAULT NULL, message_id uuid DEFAULT NULL, headers text DEFAULT NULL,
    correlation_id text DEFAULT NULL, due_at timestamptz DEFAULT NULL, kind text DEFAULT 'Event',
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true, lane text DEFAULT NULL
) RETURNS uuid LANGUAGE sql VOLATILE SECURITY INVOKER AS $enqueue$
    SELECT {outbox}_enqueue($1, $2::text, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
$enqueue$;

CREATE OR REPLACE FUNCTION {outbox}_enqueue(
    topic text, payload json, destination text DEFAULT NULL, message_id uuid DEFAULT NULL, headers text DEFAULT NULL,
    correlation_id text DEFAULT NULL, due_at timestamptz DEFAULT NULL, kind text DEFAULT 'Event',
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true, lane text DEFAULT NULL
) RETURNS uuid LANGUAGE sql VOLATILE SECURITY INVOKER AS $enqueue$
    SELECT {outbox}_enqueue($1, $2::text, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
$enqueue$;

{secure}CREATE TABLE IF NOT EXISTS {s}postroom_schema (
    outbox        text   NOT NULL,
    inbox         text   NOT NULL,
    version       bigint NOT NULL,
    needs         bigint, -- the version that a program must know at least; null: this one
    maintained_at bigint NOT NULL DEFAULT 0,
    payloads_from bigint NOT NULL DEFAULT 0, -- the inbox keeps the payloads of what was done later
    PRIMARY KEY (outbox, inbox)
);

INSERT INTO {s}postroom_schema (outbox, inbox, version) VALUES ('{outbox_name}', '{inbox_name}', 2)
ON CONFLICT (outbox, inbox) DO NOTHING;
