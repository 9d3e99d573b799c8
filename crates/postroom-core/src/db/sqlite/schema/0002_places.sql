-- From version 1, where a message was one row, to version 2, where it is written once and stands in a place.
-- The old tables are set aside, copied and dropped. The first programs did not know some of their columns. Where an old
-- table has no such column, the name in the inner query means that of the outer query: a null, or a default.

DROP TRIGGER IF EXISTS {outbox}_written;
DROP INDEX IF EXISTS {outbox}_id;
DROP INDEX IF EXISTS {outbox}_message;
DROP INDEX IF EXISTS {outbox}_work;
DROP INDEX IF EXISTS {outbox}_expiring;
DROP INDEX IF EXISTS {outbox}_suspects;
DROP INDEX IF EXISTS {outbox}_lapsing;
DROP INDEX IF EXISTS {outbox}_finished;
DROP INDEX IF EXISTS {outbox}_failures_seq;
DROP INDEX IF EXISTS {inbox}_key;
DROP INDEX IF EXISTS {inbox}_work;
DROP INDEX IF EXISTS {inbox}_outside;
DROP INDEX IF EXISTS {inbox}_expiring;
DROP INDEX IF EXISTS {inbox}_suspects;
DROP INDEX IF EXISTS {inbox}_lapsing;
DROP INDEX IF EXISTS {inbox}_finished;
DROP INDEX IF EXISTS {inbox}_failures_seq;
DROP INDEX IF EXISTS {inbox}_marks_age;
ALTER TABLE {outbox} RENAME TO {outbox}_v1;
ALTER TABLE {outbox}_failures RENAME TO {outbox}_failures_v1;
ALTER TABLE {inbox} RENAME TO {inbox}_v1;
ALTER TABLE {inbox}_failures RENAME TO {inbox}_failures_v1;
ALTER TABLE {inbox}_marks RENAME TO {inbox}_marks_v1;
ALTER TABLE postroom_schema RENAME TO postroom_schema_v1;

{tables}

-- Every message has been looked at, and none is fresh.
INSERT INTO {outbox} (seq, id, message_id, kind, topic, destination, correlation_id, visible_at, due_at, expires_at,
    max_attempts, born, created_at, headers, payload)
SELECT seq, id, message_id, kind, topic, destination, correlation_id, max(created_at, coalesce(due_at, created_at)),
    due_at, expires_at, max_attempts, 0, created_at, headers, payload
FROM {outbox}_v1 ORDER BY seq;

INSERT INTO {inbox} (seq, source, message_id, kind, topic, hash, correlation_id, visible_at, due_at, expires_at,
    max_attempts, born, created_at, last_seen_at, headers, payload)
SELECT seq, source, message_id, kind, topic, hash, correlation_id,
    CASE WHEN state NOT IN (5, 6) THEN max(created_at, coalesce(due_at, created_at)) END, due_at, expires_at,
    max_attempts, CASE WHEN state IN (5, 6) THEN 5 ELSE 0 END, created_at, last_seen_at, headers, payload
FROM {inbox}_v1 ORDER BY seq;

{each}
INSERT INTO {inbox}_marks (source, message_id, handler, topic, marked_at)
SELECT source, message_id, handler,
    (SELECT topic FROM {inbox}_marks_v1 AS o
     WHERE o.source = m.source AND o.message_id = m.message_id AND o.handler = m.handler), marked_at
FROM (SELECT source, message_id, handler, '' AS topic, marked_at FROM {inbox}_marks_v1) AS m;

DROP TABLE {inbox}_marks_v1;

INSERT INTO postroom_schema (outbox, inbox, version, needs, maintained_at)
SELECT outbox, inbox, version,
    (SELECT needs FROM postroom_schema_v1 AS o WHERE o.outbox = s.outbox AND o.inbox = s.inbox), maintained_at
FROM (SELECT outbox, inbox, version, NULL AS needs, maintained_at FROM postroom_schema_v1) AS s
WHERE true
ON CONFLICT (outbox, inbox) DO UPDATE SET version = excluded.version, maintained_at = excluded.maintained_at;

DROP TABLE postroom_schema_v1;
