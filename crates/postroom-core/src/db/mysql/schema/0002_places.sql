-- From version 1, where a message was one row, to version 2, where it is written once and stands in a place.
-- The tables of the messages stay, with their payloads. What changes while a message is handled moves to tables beside
-- them. Changes of a table cannot be undone here, so every part can be repeated: if this is broken off, run it again.
-- The column with the number of claims gets another name first. From then on, programs of version 1 claim nothing.
-- If a transaction of somebody else holds a table for too long, the change fails, and nothing is lost.

SET @postroom_wait = @@SESSION.lock_wait_timeout;
SET SESSION lock_wait_timeout = 30;

DROP PROCEDURE IF EXISTS {outbox}_v1_begin;
CREATE PROCEDURE {outbox}_v1_begin()
BEGIN
    DECLARE v_schema VARCHAR(64) DEFAULT COALESCE(NULLIF('{schema}', ''), DATABASE());
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{outbox_name}' AND column_name = 'claim_no') THEN
        ALTER TABLE {outbox} RENAME COLUMN claim_no TO v1_claim_no, ADD COLUMN born TINYINT NOT NULL DEFAULT 0,
            ADD COLUMN lane VARBINARY(1020);
    END IF;
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{inbox_name}' AND column_name = 'claim_no') THEN
        ALTER TABLE {inbox} RENAME COLUMN claim_no TO v1_claim_no, ADD COLUMN born TINYINT NOT NULL DEFAULT 5,
            ADD COLUMN lane VARBINARY(1020), ADD COLUMN dropped_at BIGINT;
    END IF;
    -- The first programs did not know these columns.
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{outbox_name}' AND column_name = 'v1_claim_no')
       AND NOT EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{outbox_name}' AND column_name = 'dismissed_by') THEN
        ALTER TABLE {outbox} ADD COLUMN dismissed_by VARCHAR(255), ADD COLUMN dismissed_why TEXT;
    END IF;
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{inbox_name}' AND column_name = 'v1_claim_no')
       AND NOT EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{inbox_name}' AND column_name = 'dismissed_by') THEN
        ALTER TABLE {inbox} ADD COLUMN dismissed_by VARCHAR(255), ADD COLUMN dismissed_why TEXT;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = '{outbox_name}_failures' AND column_name = 'code') THEN
        ALTER TABLE {outbox}_failures ADD COLUMN code VARCHAR(32);
    END IF;
    IF NOT EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = '{inbox_name}_failures' AND column_name = 'code') THEN
        ALTER TABLE {inbox}_failures ADD COLUMN code VARCHAR(32);
    END IF;
    IF NOT EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = '{inbox_name}_marks' AND column_name = 'topic') THEN
        ALTER TABLE {inbox}_marks
            ADD COLUMN topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
            DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
        ALTER TABLE {inbox}_marks ALTER COLUMN topic DROP DEFAULT;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = 'postroom_schema' AND column_name = 'needs') THEN
        ALTER TABLE {s}postroom_schema ADD COLUMN needs BIGINT AFTER version;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = 'postroom_schema'
                     AND column_name = 'payloads_from') THEN
        ALTER TABLE {s}postroom_schema ADD COLUMN payloads_from BIGINT NOT NULL DEFAULT 0;
    END IF;
END;
CALL {outbox}_v1_begin();
DROP PROCEDURE {outbox}_v1_begin;

DROP PROCEDURE IF EXISTS {outbox}_enqueue_with;
DROP PROCEDURE IF EXISTS {outbox}_enqueue;

{tables}

-- Programs of version 1 still write to the inbox. They do not know the new column: a message that waits has a time.
CREATE TRIGGER IF NOT EXISTS {inbox}_v1_written BEFORE INSERT ON {inbox} FOR EACH ROW
SET NEW.born = IF(NEW.born = 5 AND NEW.visible_at IS NOT NULL, 0, NEW.born);
CREATE TRIGGER IF NOT EXISTS {inbox}_v1_accepted BEFORE UPDATE ON {inbox} FOR EACH ROW
SET NEW.born = IF(NEW.born = 5 AND OLD.visible_at IS NULL AND NEW.visible_at IS NOT NULL, 0, NEW.born);

{each}

DROP TRIGGER IF EXISTS {inbox}_v1_written;
DROP TRIGGER IF EXISTS {inbox}_v1_accepted;
ALTER TABLE {outbox} MODIFY visible_at BIGINT NOT NULL;
UPDATE {inbox}_trouble AS t JOIN {inbox} AS m ON m.seq = t.seq SET t.at = m.last_seen_at WHERE t.state IN (5, 6);
SET SESSION lock_wait_timeout = @postroom_wait;
