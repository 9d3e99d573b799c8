-- Postroom's tables on PostgreSQL. Times are microseconds since 1970 in UTC.
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing, 7 dismissed
-- Every row is updated twice, when it is claimed and when it is acknowledged: the free space in each page takes the
-- second version, and vacuum runs early.

{create_schema}

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    visible_at      bigint   DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    created_at      bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    claim_no        bigint   NOT NULL DEFAULT 0,
    attempts        integer  NOT NULL DEFAULT 0,
    crashes         integer  NOT NULL DEFAULT 0,
    state           smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4 OR state = 7),
    id              uuid     NOT NULL,
    message_id      uuid,    -- null: the same as id
    owner           uuid,
    locked_until    bigint,
    due_at          bigint,
    next_attempt_at bigint,
    expires_at      bigint,
    last_attempt_at bigint,
    processed_at    bigint,
    processed_by    uuid,
    max_attempts    integer,
    kind            text     NOT NULL DEFAULT 'Event',
    topic           text     NOT NULL,
    payload         text     NOT NULL,
    destination     text,
    headers         text,
    correlation_id  text,
    last_error      text,
    response        text,
    dismissed_by    text,
    dismissed_why   text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX IF NOT EXISTS {outbox_name}_id ON {outbox} (id);
CREATE INDEX IF NOT EXISTS {outbox_name}_message ON {outbox} (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {outbox_name}_ready ON {outbox} (visible_at, seq) WHERE state = 0;
-- Suspects are tried separately from the rest.
CREATE INDEX IF NOT EXISTS {outbox_name}_suspects ON {outbox} (visible_at, seq) WHERE state = 0 AND crashes > 0;
CREATE INDEX IF NOT EXISTS {outbox_name}_leased ON {outbox} (visible_at, seq) WHERE state = 1;
CREATE INDEX IF NOT EXISTS {outbox_name}_done ON {outbox} (processed_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS {outbox_name}_dead ON {outbox} (seq) WHERE state = 3;
CREATE INDEX IF NOT EXISTS {outbox_name}_expired ON {outbox} (seq) WHERE state = 4;
CREATE INDEX IF NOT EXISTS {outbox_name}_dismissed ON {outbox} (processed_at) WHERE state = 7;
CREATE INDEX IF NOT EXISTS {outbox_name}_expiring ON {outbox} (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
-- Dead letters whose time to live is not over yet.
CREATE INDEX IF NOT EXISTS {outbox_name}_lapsing ON {outbox} (expires_at) WHERE state = 3 AND expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {outbox}_failures (
    no      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq     bigint  NOT NULL,
    at      bigint  NOT NULL,
    attempt integer NOT NULL,
    worker  uuid,
    error   text,
    code    text
);

CREATE INDEX IF NOT EXISTS {outbox_name}_failures_seq ON {outbox}_failures (seq, no);

-- Destinations and handlers that are held because they failed.
CREATE TABLE IF NOT EXISTS {outbox}_holds (
    kind     text   NOT NULL COLLATE "C", -- service or topic
    name     text   NOT NULL COLLATE "C",
    owner    uuid   NOT NULL,
    since    bigint NOT NULL,
    tried_at bigint NOT NULL,
    code     text,
    why      text,
    PRIMARY KEY (kind, name, owner)
);

-- Actions of operators: who, what, how many messages, and why.
CREATE TABLE IF NOT EXISTS {outbox}_audit (
    act      uuid   NOT NULL,
    what     text   NOT NULL,
    messages bigint NOT NULL,
    at       bigint NOT NULL,
    who      text   NOT NULL,
    why      text,
    chosen   text,
    PRIMARY KEY (act, what)
);

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    visible_at      bigint,
    created_at      bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    last_seen_at    bigint   NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    claim_no        bigint   NOT NULL DEFAULT 0,
    attempts        integer  NOT NULL DEFAULT 0,
    crashes         integer  NOT NULL DEFAULT 0,
    state           smallint NOT NULL DEFAULT 5 CHECK (state BETWEEN 0 AND 7),
    owner           uuid,
    locked_until    bigint,
    due_at          bigint,
    next_attempt_at bigint,
    expires_at      bigint,
    last_attempt_at bigint,
    processed_at    bigint,
    processed_by    uuid,
    max_attempts    integer,
    source          text     NOT NULL COLLATE "C",
    message_id      text     NOT NULL COLLATE "C",
    kind            text     NOT NULL DEFAULT 'Event',
    topic           text     NOT NULL DEFAULT '',
    payload         text     NOT NULL DEFAULT '',
    hash            bytea, -- the name of the algorithm, a colon, the digest
    headers         text,
    correlation_id  text,
    last_error      text,
    response        text,
    dismissed_by    text,
    dismissed_why   text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX IF NOT EXISTS {inbox_name}_key ON {inbox} (source, message_id);
CREATE INDEX IF NOT EXISTS {inbox_name}_ready ON {inbox} (visible_at, seq) WHERE state = 0;
-- Suspects are tried separately from the rest.
CREATE INDEX IF NOT EXISTS {inbox_name}_suspects ON {inbox} (visible_at, seq) WHERE state = 0 AND crashes > 0;
CREATE INDEX IF NOT EXISTS {inbox_name}_leased ON {inbox} (visible_at, seq) WHERE state = 1;
CREATE INDEX IF NOT EXISTS {inbox_name}_done ON {inbox} (processed_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS {inbox_name}_dead ON {inbox} (seq) WHERE state = 3;
CREATE INDEX IF NOT EXISTS {inbox_name}_expired ON {inbox} (seq) WHERE state = 4;
CREATE INDEX IF NOT EXISTS {inbox_name}_dismissed ON {inbox} (processed_at) WHERE state = 7;
CREATE INDEX IF NOT EXISTS {inbox_name}_expiring ON {inbox} (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
-- Dead letters whose time to live is not over yet.
CREATE INDEX IF NOT EXISTS {inbox_name}_lapsing ON {inbox} (expires_at) WHERE state = 3 AND expires_at IS NOT NULL;
-- Seen, or handled outside the queue.
CREATE INDEX IF NOT EXISTS {inbox_name}_outside ON {inbox} (state, last_seen_at) WHERE state IN (5, 6);

CREATE TABLE IF NOT EXISTS {inbox}_failures (
    no      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq     bigint  NOT NULL,
    at      bigint  NOT NULL,
    attempt integer NOT NULL,
    worker  uuid,
    error   text,
    code    text
);

CREATE INDEX IF NOT EXISTS {inbox_name}_failures_seq ON {inbox}_failures (seq, no);

-- Destinations and handlers that are held because they failed.
CREATE TABLE IF NOT EXISTS {inbox}_holds (
    kind     text   NOT NULL COLLATE "C", -- service or topic
    name     text   NOT NULL COLLATE "C",
    owner    uuid   NOT NULL,
    since    bigint NOT NULL,
    tried_at bigint NOT NULL,
    code     text,
    why      text,
    PRIMARY KEY (kind, name, owner)
);

-- Actions of operators: who, what, how many messages, and why.
CREATE TABLE IF NOT EXISTS {inbox}_audit (
    act      uuid   NOT NULL,
    what     text   NOT NULL,
    messages bigint NOT NULL,
    at       bigint NOT NULL,
    who      text   NOT NULL,
    why      text,
    chosen   text,
    PRIMARY KEY (act, what)
);

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
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true
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
    FOR checked IN SELECT * FROM (VALUES ('topic', coalesce($1, '')), ('correlation_id', nullif($6, ''))) AS n (what, name)
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
                              due_at, expires_at, max_attempts, created_at)
        SELECT id, nullif(message, id), coalesce($8, 'Event'), $1, $2, $3, $5, nullif($6, ''), greatest(now, due), due,
               CASE WHEN $9 IS NOT NULL THEN now + (extract(epoch FROM $9) * 1000000)::bigint
                    WHEN $3 IS NOT NULL THEN greatest(now, due) + 86400000000 END, $10, now
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
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true
) RETURNS uuid LANGUAGE sql VOLATILE SECURITY INVOKER AS $enqueue$
    SELECT {outbox}_enqueue($1, $2::text, $3, $4, $5, $6, $7, $8, $9, $10, $11)
$enqueue$;

CREATE OR REPLACE FUNCTION {outbox}_enqueue(
    topic text, payload json, destination text DEFAULT NULL, message_id uuid DEFAULT NULL, headers text DEFAULT NULL,
    correlation_id text DEFAULT NULL, due_at timestamptz DEFAULT NULL, kind text DEFAULT 'Event',
    ttl interval DEFAULT NULL, max_attempts integer DEFAULT NULL, notify boolean DEFAULT true
) RETURNS uuid LANGUAGE sql VOLATILE SECURITY INVOKER AS $enqueue$
    SELECT {outbox}_enqueue($1, $2::text, $3, $4, $5, $6, $7, $8, $9, $10, $11)
$enqueue$;

CREATE TABLE IF NOT EXISTS {s}postroom_schema (
    outbox        text   NOT NULL,
    inbox         text   NOT NULL,
    version       bigint NOT NULL,
    maintained_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (outbox, inbox)
);

INSERT INTO {s}postroom_schema AS s (outbox, inbox, version) VALUES ('{outbox_name}', '{inbox_name}', 1)
ON CONFLICT (outbox, inbox) DO UPDATE SET version = excluded.version WHERE s.version < excluded.version;
