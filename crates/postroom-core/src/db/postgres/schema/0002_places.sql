-- From version 1, where a message was one row, to version 2, where it is written once and stands in a place.
-- The tables of the messages stay, with the rights on them and their payloads. What changes while a message is handled
-- moves to tables beside them. The first programs did not know some of the old columns.
-- If a transaction of somebody else holds the tables for too long, the step fails and changes nothing.

SET LOCAL lock_timeout = '30s';
SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on;
LOCK TABLE {outbox}, {inbox}, {outbox}_failures, {inbox}_failures, {inbox}_marks, {s}postroom_schema
    IN ACCESS EXCLUSIVE MODE;

ALTER TABLE {s}postroom_schema
    ADD COLUMN IF NOT EXISTS needs bigint, ADD COLUMN IF NOT EXISTS payloads_from bigint NOT NULL DEFAULT 0;
ALTER TABLE {outbox} ADD COLUMN IF NOT EXISTS dismissed_by text, ADD COLUMN IF NOT EXISTS dismissed_why text;
ALTER TABLE {inbox} ADD COLUMN IF NOT EXISTS dismissed_by text, ADD COLUMN IF NOT EXISTS dismissed_why text;
ALTER TABLE {outbox}_failures ADD COLUMN IF NOT EXISTS code text;
ALTER TABLE {inbox}_failures ADD COLUMN IF NOT EXISTS code text;
ALTER TABLE {inbox}_marks ADD COLUMN IF NOT EXISTS topic text NOT NULL DEFAULT '';
ALTER TABLE {inbox}_marks ALTER COLUMN topic DROP DEFAULT;

-- Tables and indexes share their names.
DROP INDEX IF EXISTS {outbox}_ready, {outbox}_suspects, {outbox}_leased, {outbox}_done, {outbox}_dead, {outbox}_expired,
    {outbox}_dismissed, {outbox}_expiring, {outbox}_lapsing, {inbox}_ready, {inbox}_suspects, {inbox}_leased,
    {inbox}_done, {inbox}_dead, {inbox}_expired, {inbox}_dismissed, {inbox}_expiring, {inbox}_lapsing, {inbox}_outside;

CREATE TEMP TABLE {outbox_name}_v1 ON COMMIT DROP AS
SELECT seq, state, visible_at, created_at AS first_at, next_attempt_at, expires_at, attempts, crashes, claim_no, owner,
    locked_until, last_attempt_at, last_error, processed_at, processed_by, response, dismissed_by, dismissed_why,
    NULL::bigint AS last_seen_at
FROM {outbox};

CREATE TEMP TABLE {inbox_name}_v1 ON COMMIT DROP AS
SELECT seq, state, visible_at, created_at AS first_at, next_attempt_at, expires_at, attempts, crashes, claim_no, owner,
    locked_until, last_attempt_at, last_error, processed_at, processed_by, response, dismissed_by, dismissed_why,
    last_seen_at
FROM {inbox};

UPDATE {outbox} SET visible_at = greatest(created_at, due_at) WHERE state <> 0 OR visible_at IS NULL;
UPDATE {inbox} SET visible_at = greatest(created_at, due_at)
WHERE state NOT IN (0, 5, 6) OR state = 0 AND visible_at IS NULL;

ALTER TABLE {outbox}
    DROP COLUMN claim_no, DROP COLUMN attempts, DROP COLUMN crashes, DROP COLUMN owner, DROP COLUMN locked_until,
    DROP COLUMN next_attempt_at, DROP COLUMN last_attempt_at, DROP COLUMN processed_at, DROP COLUMN processed_by,
    DROP COLUMN last_error, DROP COLUMN response, DROP COLUMN dismissed_by, DROP COLUMN dismissed_why,
    DROP COLUMN state, ADD COLUMN born smallint NOT NULL DEFAULT 0,
    ADD COLUMN lane text COLLATE "C", ALTER COLUMN visible_at SET NOT NULL,
    RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay,
           autovacuum_analyze_scale_factor);

ALTER TABLE {inbox}
    DROP COLUMN claim_no, DROP COLUMN attempts, DROP COLUMN crashes, DROP COLUMN owner, DROP COLUMN locked_until,
    DROP COLUMN next_attempt_at, DROP COLUMN last_attempt_at, DROP COLUMN processed_at, DROP COLUMN processed_by,
    DROP COLUMN last_error, DROP COLUMN response, DROP COLUMN dismissed_by, DROP COLUMN dismissed_why,
    DROP COLUMN state, ADD COLUMN born smallint NOT NULL DEFAULT 0,
    ADD COLUMN lane text COLLATE "C",
    RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay,
           autovacuum_analyze_scale_factor);

ALTER TABLE {inbox} ALTER COLUMN born SET DEFAULT 5, ADD COLUMN dropped_at bigint;
UPDATE {inbox} SET born = 5 WHERE visible_at IS NULL;

-- It would be one of two functions that the same call can mean.
DROP FUNCTION IF EXISTS {outbox}_enqueue(text, text, text, uuid, text, text, timestamptz, text, interval, integer);
DROP FUNCTION IF EXISTS
    {outbox}_enqueue(text, text, text, uuid, text, text, timestamptz, text, interval, integer, boolean),
    {outbox}_enqueue(text, json, text, uuid, text, text, timestamptz, text, interval, integer, boolean),
    {outbox}_enqueue(text, jsonb, text, uuid, text, text, timestamptz, text, interval, integer, boolean);

{tables}

{each}
