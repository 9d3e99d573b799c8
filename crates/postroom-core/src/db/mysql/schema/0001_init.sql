-- Postroom's tables on MySQL 8.0.29 and MariaDB 10.6. Times are microseconds since 1970 in UTC, ids are 16 bytes.
--
-- A message is written once. Where it stands is written elsewhere, in narrow tables, and it stands in one place:
--   _line     it waits
--   _lane     with place 0, it waits for its turn
--   _taken    a claim has taken it: it is in progress, or done
--   _trouble  with a state above 0, it is dead, expired, dismissed, seen, or handled elsewhere;
--             with state 0, what happened to it before
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing, 7 dismissed
--
-- Keys are bytes: the comparison of a text would ignore its trailing blanks. A trigger cannot change a table that its
-- statement reads. So messages move by procedures, which answer with the number of messages that moved.

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id              BINARY(16)   NOT NULL,
    message_id      BINARY(16),  -- null: the same as id
    kind            VARCHAR(32)  NOT NULL DEFAULT 'Event',
    topic           VARCHAR(255) NOT NULL,
    destination     VARCHAR(255),
    correlation_id  VARCHAR(255),
    lane            VARBINARY(1020),
    visible_at      BIGINT       NOT NULL, -- when it was due first
    due_at          BIGINT,
    expires_at      BIGINT,
    max_attempts    INT,
    born            TINYINT      NOT NULL DEFAULT 0, -- the state in which it was written
    created_at      BIGINT       NOT NULL,
    headers         LONGTEXT,
    payload         LONGTEXT     NOT NULL,
    UNIQUE KEY {outbox_name}_id (id),
    KEY {outbox_name}_message (message_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    source          VARBINARY(1020) NOT NULL,
    message_id      VARBINARY(1020) NOT NULL,
    kind            VARCHAR(32)     NOT NULL DEFAULT 'Event',
    topic           VARCHAR(255)    NOT NULL DEFAULT '',
    hash            VARBINARY(1024), -- the name of the algorithm, a colon, the digest
    correlation_id  VARCHAR(255),
    lane            VARBINARY(1020),
    visible_at      BIGINT,          -- null if it was only seen at first
    due_at          BIGINT,
    expires_at      BIGINT,
    max_attempts    INT,
    born            TINYINT         NOT NULL DEFAULT 5, -- the state in which it was written; 5 while it is only seen
    created_at      BIGINT          NOT NULL,
    last_seen_at    BIGINT          NOT NULL, -- when this content arrived
    dropped_at      BIGINT,          -- when its payload was dropped, because it was done long ago
    headers         LONGTEXT,
    payload         LONGTEXT        NOT NULL,
    UNIQUE KEY {inbox_name}_key (source, message_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages that arrived again: when that was, and their hash if the first arrival had none.
CREATE TABLE IF NOT EXISTS {inbox}_seen (
    seq  BIGINT NOT NULL PRIMARY KEY,
    at   BIGINT NOT NULL,
    hash VARBINARY(1024)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

{each}
-- A new message waits in the line, or for its turn in its lane.
CREATE TRIGGER IF NOT EXISTS {outbox}_written AFTER INSERT ON {outbox} FOR EACH ROW
BEGIN
    DECLARE v_slot, v_no BIGINT;
    IF NEW.lane IS NULL THEN
        INSERT INTO {outbox}_line (visible_at, seq, place, expires_at, bytes)
        VALUES (NEW.visible_at, NEW.seq,
                IF(NEW.destination IS NULL, CONCAT('=', NEW.topic), CONCAT('>', NEW.destination)),
                NEW.expires_at, OCTET_LENGTH(NEW.payload));
    ELSE
        -- The lock is held until the commit. This is no procedure: that would slow down all inserts.
        SET v_slot = -1 - CAST(CRC32(NEW.lane) & 1023 AS SIGNED);
        UPDATE {outbox}_lane SET at = at + 1 WHERE lane = '' AND no = v_slot;
        SELECT MAX(at) INTO v_no FROM {outbox}_lane WHERE lane = '' AND no = v_slot;
        INSERT INTO {outbox}_lane (lane, no, seq, at, expires_at, bytes, route)
        VALUES (NEW.lane, v_no, NEW.seq, NEW.visible_at, NEW.expires_at, OCTET_LENGTH(NEW.payload),
                IF(NEW.destination IS NULL, CONCAT('=', NEW.topic), CONCAT('>', NEW.destination)));
    END IF;
END;

-- A new message waits, or it is only known.
CREATE TRIGGER IF NOT EXISTS {inbox}_written AFTER INSERT ON {inbox} FOR EACH ROW
BEGIN
    DECLARE v_slot, v_no BIGINT;
    IF NEW.born = 0 AND NEW.lane IS NOT NULL THEN
        -- As in the outbox.
        SET v_slot = -1 - CAST(CRC32(NEW.lane) & 1023 AS SIGNED);
        UPDATE {inbox}_lane SET at = at + 1 WHERE lane = '' AND no = v_slot;
        SELECT MAX(at) INTO v_no FROM {inbox}_lane WHERE lane = '' AND no = v_slot;
        INSERT INTO {inbox}_lane (lane, no, seq, at, expires_at, bytes, route)
        VALUES (NEW.lane, v_no, NEW.seq, NEW.visible_at, NEW.expires_at, OCTET_LENGTH(NEW.payload),
                CONCAT('=', NEW.topic));
    ELSEIF NEW.born = 0 THEN
        INSERT INTO {inbox}_line (visible_at, seq, place, expires_at, bytes)
        VALUES (NEW.visible_at, NEW.seq, CONCAT('=', NEW.topic), NEW.expires_at, OCTET_LENGTH(NEW.payload));
    ELSEIF NEW.born = 5 THEN
        INSERT INTO {inbox}_trouble (seq, state, at, expires_at)
        VALUES (NEW.seq, 5, NEW.last_seen_at, NEW.expires_at);
    END IF;
END;

CREATE TRIGGER IF NOT EXISTS {inbox}_changed AFTER UPDATE ON {inbox} FOR EACH ROW
BEGIN
    -- The content of a message arrives that was only known.
    IF OLD.born = 5 AND NEW.born = 0 THEN
        UPDATE {inbox}_trouble SET state = 0, at = NULL, visible_at = NEW.visible_at, expires_at = NEW.expires_at
        WHERE seq = NEW.seq;
        IF NEW.lane IS NULL THEN
            INSERT INTO {inbox}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
            SELECT NEW.visible_at, NEW.seq, CONCAT('=', NEW.topic), NEW.expires_at, t.crashes, t.claims,
                   OCTET_LENGTH(NEW.payload)
            FROM {inbox}_trouble AS t WHERE t.seq = NEW.seq;
        ELSE
            CALL {inbox}_lane_enter(
                NEW.lane, NEW.seq, NEW.visible_at, NEW.expires_at, OCTET_LENGTH(NEW.payload), CONCAT('=', NEW.topic));
        END IF;
    END IF;
    -- New content arrived: earlier arrivals no longer count.
    IF NEW.last_seen_at <> OLD.last_seen_at THEN
        DELETE FROM {inbox}_seen WHERE seq = NEW.seq;
    END IF;
END;

-- Messages that are only known are deleted by the time of their last arrival.
CREATE TRIGGER IF NOT EXISTS {inbox}_seen_first AFTER INSERT ON {inbox}_seen FOR EACH ROW
UPDATE {inbox}_trouble SET at = NEW.at WHERE seq = NEW.seq AND state IN (5, 6);

CREATE TRIGGER IF NOT EXISTS {inbox}_seen_again AFTER UPDATE ON {inbox}_seen FOR EACH ROW
UPDATE {inbox}_trouble SET at = NEW.at WHERE seq = NEW.seq AND state IN (5, 6);

CREATE TRIGGER IF NOT EXISTS {inbox}_forgotten AFTER DELETE ON {inbox} FOR EACH ROW
DELETE FROM {inbox}_seen WHERE seq = OLD.seq;

-- An attempt starts outside the queue.
CREATE PROCEDURE IF NOT EXISTS {inbox}_begin(IN p_seq BIGINT, IN p_now BIGINT) SQL SECURITY INVOKER
BEGIN
    DECLARE v_moved INT;
    UPDATE {inbox}_trouble SET state = 6, attempts = attempts + 1, last_attempt_at = p_now
    WHERE seq = p_seq AND state IN (5, 6);
    SET v_moved = ROW_COUNT();
    UPDATE {inbox} SET born = 6 WHERE seq = p_seq AND born = 5;
    SELECT v_moved;
END;

-- Unique keys: which message has a key. It has it until that time. Without one, it has it while it waits, or until it is
-- done, dead, expired or dismissed.
CREATE TABLE IF NOT EXISTS {outbox}_unique (
    name       VARBINARY(1020) NOT NULL PRIMARY KEY,
    id         BINARY(16)      NOT NULL, -- of the message
    until      BIGINT,
    until_done TINYINT         NOT NULL DEFAULT 0,
    replaced   BINARY(16),               -- the message that was dismissed for it
    at         BIGINT          NOT NULL,
    look_at    BIGINT          NOT NULL, -- when to look whether the row is still needed
    KEY {outbox_name}_unique_look (look_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Takes a key for a message that is inserted next, in the same transaction. If another message has the key, or this one is
-- stored already, the answer is the error of a duplicate, and the message must not be inserted. If p_replaces is true, a
-- message that waits is dismissed instead. This is no trigger: that would slow down all inserts.
--
-- A message that waits keeps waiting until the transaction that asks has ended: its place in the line is locked, and
-- claims pass it. So it is handled after that transaction's commit, or is not counted as waiting. What decides is
-- read with locks, because the snapshot of the caller's transaction may be older.
CREATE PROCEDURE IF NOT EXISTS {outbox}_take(
    IN p_name VARCHAR(255) CHARACTER SET utf8mb4, IN p_id BINARY(16), IN p_until BIGINT, IN p_until_done BOOLEAN,
    IN p_replaces BOOLEAN, IN p_at BIGINT, IN p_look_at BIGINT
) SQL SECURITY DEFINER
BEGIN
    DECLARE v_controls VARCHAR(16) CHARACTER SET utf8mb4 DEFAULT CONCAT(
        '[', CHAR(1 USING utf8mb4), '-', CHAR(31 USING utf8mb4), CHAR(127 USING utf8mb4), '-',
        CHAR(0xC29F USING utf8mb4), ']');
    DECLARE v_name VARBINARY(1020) DEFAULT CAST(p_name AS BINARY);
    DECLARE v_had, v_replaced BINARY(16);
    DECLARE v_at BIGINT DEFAULT COALESCE(p_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
    DECLARE v_seq, v_until, v_stood, v_due_at, v_expires_at, v_next_attempt_at, v_claim_no BIGINT;
    DECLARE v_until_done, v_moved, v_attempts, v_crashes INT DEFAULT 0;
    DECLARE v_waits, v_lives, v_has_begun, v_has_key, v_is_known BOOLEAN DEFAULT FALSE;
    DECLARE v_processed_by BINARY(16);
    DECLARE v_last_error TEXT CHARACTER SET utf8mb4;
    DECLARE v_response LONGTEXT CHARACTER SET utf8mb4;
    IF COALESCE(CHAR_LENGTH(p_name), 0) = 0 OR RIGHT(p_name, 1) = ' ' OR p_name REGEXP v_controls
        OR LOCATE(CHAR(0 USING utf8mb4), p_name) > 0 THEN
        SIGNAL SQLSTATE '45000'
        SET MESSAGE_TEXT = 'a unique key must be 1 to 255 characters without controls or a trailing blank';
    END IF;
    -- A message that is stored already takes no key again: its key may have passed to a newer one.
    SELECT COUNT(*) INTO v_is_known FROM {outbox} WHERE id = p_id;
    IF v_is_known THEN
        SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'the message is stored already';
    END IF;
    -- Whoever asks for the same key waits here until the commit.
    INSERT INTO {outbox}_unique (name, id, until, until_done, at, look_at)
    VALUES (v_name, p_id, p_until, COALESCE(p_until_done, 0), v_at, v_at + 3600000000) ON DUPLICATE KEY UPDATE name = VALUES(name);
    SELECT MAX(id), MAX(until), MAX(until_done), MAX(replaced) INTO v_had, v_until, v_until_done, v_replaced
    FROM {outbox}_unique WHERE name = v_name FOR UPDATE;
    IF v_had <> p_id THEN
        SET v_replaced = NULL;
        -- What was committed while this transaction waited for the key.
        SELECT COUNT(*) INTO v_is_known FROM {outbox} WHERE id = p_id LOCK IN SHARE MODE;
        IF v_is_known THEN
            SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'the message is stored already';
        END IF;
        -- One that has begun is not locked: it may end while this transaction is open.
        SELECT COUNT(*), COALESCE(MAX(h.done_at = 0), FALSE) INTO v_has_begun, v_lives
        FROM {outbox} AS m JOIN {outbox}_taken AS h ON h.seq = m.seq WHERE m.id = v_had;
        IF NOT v_has_begun THEN
            SELECT MAX(seq) INTO v_seq FROM {outbox} WHERE id = v_had FOR UPDATE;
            -- One that waits and is about to expire will not be handled.
            SELECT MAX(m.seq), MAX(COALESCE(t.visible_at, m.visible_at)) INTO v_seq, v_stood
            FROM {outbox} AS m LEFT JOIN {outbox}_trouble AS t ON t.seq = m.seq
            WHERE m.seq = v_seq AND COALESCE(IF(t.seq IS NULL, m.expires_at, t.expires_at) > v_at, TRUE) FOR UPDATE;
            -- Whoever claims it or moves it within its lane does so in an instant, so it is waited for. From its lane it
            -- moves into the line.
            SELECT COUNT(*) INTO v_waits FROM (
                SELECT seq FROM {outbox}_lane WHERE seq = v_seq AND place = 0 FOR UPDATE) AS w;
            IF NOT v_waits THEN
                SELECT COUNT(*) INTO v_waits FROM (
                    SELECT seq FROM {outbox}_line WHERE visible_at = v_stood AND seq = v_seq FOR UPDATE) AS l;
            END IF;
            IF v_waits THEN
                SET v_lives = TRUE;
            ELSE
                SELECT COUNT(*) INTO v_lives FROM {outbox}_taken WHERE seq = v_seq AND done_at = 0;
            END IF;
        END IF;
        SET v_has_key = CASE WHEN v_until IS NOT NULL THEN v_until > v_at WHEN v_until_done THEN v_lives ELSE v_waits END;
        IF v_has_key AND NOT (v_waits AND COALESCE(p_replaces, FALSE)) THEN
            SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'another message has the unique key';
        END IF;
        IF v_has_key THEN
            SELECT claim_no, due_at, next_attempt_at, attempts, crashes, last_error, processed_by, expires_at, response
            INTO v_claim_no, v_due_at, v_next_attempt_at, v_attempts, v_crashes, v_last_error, v_processed_by,
                v_expires_at, v_response
            FROM {outbox}_state WHERE seq = v_seq;
            CALL {outbox}_move(v_seq, v_claim_no, 7, NULL, v_due_at, v_next_attempt_at, v_attempts, v_crashes,
                v_claim_no, NULL, NULL, v_last_error, v_at, v_processed_by, v_expires_at, v_response, 0, v_moved);
            IF NOT COALESCE(v_moved, FALSE) THEN
                SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'the message changed at the same moment';
            END IF;
            UPDATE {outbox}_trouble SET dismissed_by = 'postroom', dismissed_why = 'replaced under its unique key'
            WHERE seq = v_seq;
            SET v_replaced = v_had;
        END IF;
    END IF;
    REPLACE INTO {outbox}_unique (name, id, until, until_done, replaced, at, look_at)
    VALUES (v_name, p_id, p_until, COALESCE(p_until_done, 0), v_replaced, v_at,
        COALESCE(p_look_at, p_until, v_at + 3600000000));
END;

-- One mark for each handler of a message that does not come through the inbox.
CREATE TABLE IF NOT EXISTS {inbox}_marks (
    source     VARBINARY(1020) NOT NULL,
    message_id VARBINARY(1020) NOT NULL,
    handler    VARBINARY(1020) NOT NULL,
    topic      VARCHAR(255)    NOT NULL, -- of the message; empty if its sender names none
    marked_at  BIGINT          NOT NULL,
    PRIMARY KEY (source, message_id, handler),
    KEY {inbox_name}_marks_age (handler, marked_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- For services in any language, in their own transaction. The same message for the same destination is stored once.
-- A user who may call it needs no permission on the table.
-- Null means: no destination, a new message id, no headers, no correlation id, due at once (otherwise a time in UTC),
-- 'Event', a time to live of 24 hours after it is due with a destination and no limit without one, as many attempts as
-- the worker's policy says.
CREATE PROCEDURE IF NOT EXISTS {outbox}_enqueue_with(
    IN p_topic VARCHAR(255) CHARACTER SET utf8mb4, IN p_payload LONGTEXT CHARACTER SET utf8mb4,
    IN p_destination VARCHAR(255) CHARACTER SET utf8mb4, IN p_message_id VARCHAR(36) CHARACTER SET ascii,
    IN p_headers LONGTEXT CHARACTER SET utf8mb4, IN p_correlation_id VARCHAR(255) CHARACTER SET utf8mb4,
    IN p_due_at DATETIME(6), IN p_kind VARCHAR(32) CHARACTER SET utf8mb4, IN p_ttl_seconds BIGINT,
    IN p_max_attempts INT, IN p_lane VARCHAR(255) CHARACTER SET utf8mb4
) SQL SECURITY DEFINER
BEGIN
    -- The same checks that the library makes on its own messages.
    DECLARE v_controls VARCHAR(16) CHARACTER SET utf8mb4 DEFAULT CONCAT(
        '[', CHAR(1 USING utf8mb4), '-', CHAR(31 USING utf8mb4), CHAR(127 USING utf8mb4), '-',
        CHAR(0xC29F USING utf8mb4), ']');
    DECLARE v_why VARCHAR(128) CHARACTER SET utf8mb4;
    DECLARE v_header INT DEFAULT 0;
    DECLARE v_bytes BIGINT DEFAULT 0;
    DECLARE v_name LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_id, v_message BINARY(16);
    DECLARE v_hash CHAR(64) CHARACTER SET ascii;
    DECLARE v_at, v_due BIGINT;
    SET v_why = CASE
        WHEN p_payload IS NULL THEN 'payload must not be null'
        WHEN LOCATE(CHAR(0 USING utf8mb4), p_payload) > 0 THEN 'payload must not contain U+0000'
        WHEN p_kind COLLATE utf8mb4_bin NOT IN ('Event', 'Signal', 'Command', 'PushCall', 'Response')
            THEN 'kind must be Event, Signal, Command, PushCall or Response'
        WHEN COALESCE(CHAR_LENGTH(p_topic), 0) = 0 OR RIGHT(p_topic, 1) = ' ' OR p_topic REGEXP v_controls
            OR LOCATE(CHAR(0 USING utf8mb4), p_topic) > 0
            THEN 'topic must be 1 to 255 characters without controls or a trailing blank'
        WHEN CHAR_LENGTH(p_correlation_id) > 0 AND RIGHT(p_correlation_id, 1) = ' '
            OR p_correlation_id REGEXP v_controls OR LOCATE(CHAR(0 USING utf8mb4), p_correlation_id) > 0
            THEN 'correlation id must be at most 255 characters without controls or a trailing blank'
        WHEN CHAR_LENGTH(p_lane) > 0 AND RIGHT(p_lane, 1) = ' '
            OR p_lane REGEXP v_controls OR LOCATE(CHAR(0 USING utf8mb4), p_lane) > 0
            THEN 'lane must be at most 255 characters without controls or a trailing blank'
        WHEN CHAR_LENGTH(p_destination) NOT BETWEEN 1 AND 64
            OR p_destination COLLATE utf8mb4_bin REGEXP '[^a-z0-9._-]'
            OR LEFT(p_destination, 1) COLLATE utf8mb4_bin NOT REGEXP '[a-z0-9]'
            THEN 'destination must be 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit'
        WHEN REPLACE(p_message_id, '-', '') NOT REGEXP '^[0-9A-Fa-f]{32}$'
            OR REPLACE(REPLACE(p_message_id, '-', ''), '0', '') = ''
            THEN 'message id must be a UUID, and not all zeros'
        WHEN p_ttl_seconds < 1 THEN 'seconds to live must be at least 1'
        WHEN p_max_attempts < 1 THEN 'attempts must be at least 1'
        WHEN p_headers IS NOT NULL AND NOT JSON_VALID(p_headers)
            THEN 'headers must be a JSON object of texts, like {"language": "en"}'
        WHEN JSON_TYPE(p_headers) <> 'OBJECT' THEN 'headers must be a JSON object of texts, like {"language": "en"}'
        WHEN JSON_LENGTH(p_headers) > 64 THEN 'headers must be at most 64, and 16384 bytes in all' END;
    WHILE v_why IS NULL AND v_header < JSON_LENGTH(p_headers) DO
        SET v_name = JSON_UNQUOTE(JSON_EXTRACT(JSON_KEYS(p_headers), CONCAT('$[', v_header, ']')));
        SET v_bytes = v_bytes + LENGTH(v_name)
            + LENGTH(JSON_UNQUOTE(JSON_EXTRACT(JSON_EXTRACT(p_headers, '$.*'), CONCAT('$[', v_header, ']'))));
        SET v_why = CASE
            WHEN JSON_TYPE(JSON_EXTRACT(JSON_EXTRACT(p_headers, '$.*'), CONCAT('$[', v_header, ']'))) <> 'STRING'
                THEN 'headers must be a JSON object of texts, like {"language": "en"}'
            WHEN CHAR_LENGTH(v_name) NOT BETWEEN 1 AND 255 OR RIGHT(v_name, 1) = ' ' OR v_name REGEXP v_controls
                THEN 'a header''s name must be 1 to 255 characters without controls or a trailing blank'
            WHEN v_bytes > 16384 THEN 'headers must be at most 64, and 16384 bytes in all' END;
        SET v_header = v_header + 1;
    END WHILE;
    IF v_why IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why;
    END IF;
    -- Not NOW(): when clocks are set back, one hour of it comes twice.
    SET v_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET v_due = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_due_at);
    IF p_message_id IS NULL THEN
        -- A new id sorts by the time it was made (UUIDv7).
        SET v_hash = SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 256);
        SET v_message = UNHEX(CONCAT(
            LPAD(HEX(v_at DIV 1000), 12, '0'), '7', SUBSTR(v_hash, 1, 3),
            HEX(CONV(SUBSTR(v_hash, 4, 2), 16, 10) & 63 | 128), SUBSTR(v_hash, 6, 14)));
    ELSE
        SET v_message = UNHEX(REPLACE(p_message_id, '-', ''));
    END IF;
    SET v_id = v_message;
    IF p_destination IS NOT NULL THEN
        SET v_hash = SHA2(CONCAT(v_message, CAST(p_destination AS BINARY)), 256);
        SET v_id = UNHEX(CONCAT(
            HEX(LEFT(v_message, 6)), '8', SUBSTR(v_hash, 14, 3),
            HEX(CONV(SUBSTR(v_hash, 17, 2), 16, 10) & 63 | 128), SUBSTR(v_hash, 19, 14)));
    END IF;
    -- Not INSERT … SELECT: while that waits for a duplicate, nobody else gets a number.
    INSERT INTO {outbox} (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
                          expires_at, max_attempts, created_at, lane)
    VALUES (v_id, NULLIF(v_message, v_id), COALESCE(p_kind, 'Event'), p_topic, p_payload, p_destination, p_headers,
            NULLIF(p_correlation_id, ''), COALESCE(GREATEST(v_due, v_at - 86400000000), v_at), v_due,
            CASE WHEN p_ttl_seconds IS NOT NULL THEN v_at + p_ttl_seconds * 1000000
                 WHEN p_destination IS NOT NULL THEN GREATEST(v_at, COALESCE(v_due, v_at)) + 86400000000 END,
            p_max_attempts, v_at, NULLIF(p_lane, ''))
    ON DUPLICATE KEY UPDATE seq = seq;
END;

-- The usual call: CALL {outbox}_enqueue('order.placed', '{"order": 7}', NULL, NULL);
CREATE PROCEDURE IF NOT EXISTS {outbox}_enqueue(
    IN p_topic VARCHAR(255) CHARACTER SET utf8mb4, IN p_payload LONGTEXT CHARACTER SET utf8mb4,
    IN p_destination VARCHAR(255) CHARACTER SET utf8mb4, IN p_message_id VARCHAR(36) CHARACTER SET ascii
) SQL SECURITY DEFINER
BEGIN
    CALL {outbox}_enqueue_with(
        p_topic, p_payload, p_destination, p_message_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
END;

CREATE TABLE IF NOT EXISTS {s}postroom_schema (
    outbox        VARCHAR(64) NOT NULL,
    inbox         VARCHAR(64) NOT NULL,
    version       BIGINT      NOT NULL,
    needs         BIGINT, -- the version that a program must know at least; null: this one
    maintained_at BIGINT      NOT NULL DEFAULT 0,
    payloads_from BIGINT      NOT NULL DEFAULT 0, -- the inbox keeps the payloads of what was done later
    PRIMARY KEY (outbox, inbox)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO {s}postroom_schema (outbox, inbox, version) VALUES ('{outbox_name}', '{inbox_name}', 2)
ON DUPLICATE KEY UPDATE version = version;
