-- Postroom's tables on MySQL 8.0.29 and MariaDB 10.6. Times are microseconds since 1970 in UTC, ids are 16 bytes.
-- states: 0 ready, 1 leased, 2 done, 3 dead, 4 expired, 5 seen, 6 processing
-- Keys are bytes: a text would be compared with its trailing blanks ignored. InnoDB ends every index with the row's
-- number, so the index on state and time serves the claim's order.

CREATE TABLE IF NOT EXISTS {outbox} (
    seq             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id              BINARY(16)   NOT NULL,
    message_id      BINARY(16),  -- null: the same as id
    kind            VARCHAR(32)  NOT NULL DEFAULT 'Event',
    topic           VARCHAR(255) NOT NULL,
    payload         LONGTEXT     NOT NULL,
    destination     VARCHAR(255),
    headers         LONGTEXT,
    correlation_id  VARCHAR(255),
    state           SMALLINT     NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    visible_at      BIGINT,
    due_at          BIGINT,
    next_attempt_at BIGINT,
    expires_at      BIGINT,
    attempts        INT          NOT NULL DEFAULT 0,
    max_attempts    INT,
    crashes         INT          NOT NULL DEFAULT 0,
    claim_no        BIGINT       NOT NULL DEFAULT 0,
    owner           BINARY(16),
    locked_until    BIGINT,
    created_at      BIGINT       NOT NULL,
    last_attempt_at BIGINT,
    last_error      TEXT,
    processed_at    BIGINT,
    processed_by    BINARY(16),
    response        LONGTEXT,
    UNIQUE KEY {outbox_name}_id (id),
    KEY {outbox_name}_message (message_id),
    KEY {outbox_name}_work (state, visible_at),
    KEY {outbox_name}_expiring (state, expires_at),
    KEY {outbox_name}_finished (state, processed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {outbox}_failures (
    no      BIGINT     NOT NULL AUTO_INCREMENT PRIMARY KEY,
    seq     BIGINT     NOT NULL,
    at      BIGINT     NOT NULL,
    attempt INT        NOT NULL,
    worker  BINARY(16),
    error   TEXT,
    KEY {outbox_name}_failures_seq (seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {inbox} (
    seq             BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    source          VARBINARY(1020) NOT NULL,
    message_id      VARBINARY(1020) NOT NULL,
    kind            VARCHAR(32)     NOT NULL DEFAULT 'Event',
    topic           VARCHAR(255)    NOT NULL DEFAULT '',
    payload         LONGTEXT        NOT NULL,
    hash            VARBINARY(1024),
    headers         LONGTEXT,
    correlation_id  VARCHAR(255),
    state           SMALLINT        NOT NULL DEFAULT 5 CHECK (state BETWEEN 0 AND 6),
    visible_at      BIGINT,
    due_at          BIGINT,
    next_attempt_at BIGINT,
    expires_at      BIGINT,
    attempts        INT             NOT NULL DEFAULT 0,
    max_attempts    INT,
    crashes         INT             NOT NULL DEFAULT 0,
    claim_no        BIGINT          NOT NULL DEFAULT 0,
    owner           BINARY(16),
    locked_until    BIGINT,
    created_at      BIGINT          NOT NULL,
    last_seen_at    BIGINT          NOT NULL,
    last_attempt_at BIGINT,
    last_error      TEXT,
    processed_at    BIGINT,
    processed_by    BINARY(16),
    response        LONGTEXT,
    UNIQUE KEY {inbox_name}_key (source, message_id),
    KEY {inbox_name}_work (state, visible_at),
    KEY {inbox_name}_expiring (state, expires_at),
    KEY {inbox_name}_finished (state, processed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {inbox}_failures (
    no      BIGINT     NOT NULL AUTO_INCREMENT PRIMARY KEY,
    seq     BIGINT     NOT NULL,
    at      BIGINT     NOT NULL,
    attempt INT        NOT NULL,
    worker  BINARY(16),
    error   TEXT,
    KEY {inbox_name}_failures_seq (seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One mark for each handler of a message that arrives by some other way than the inbox.
CREATE TABLE IF NOT EXISTS {inbox}_marks (
    source     VARBINARY(1020) NOT NULL,
    message_id VARBINARY(1020) NOT NULL,
    handler    VARBINARY(1020) NOT NULL,
    marked_at  BIGINT          NOT NULL,
    PRIMARY KEY (source, message_id, handler),
    KEY {inbox_name}_marks_age (handler, marked_at)
) ENGINE = InnoDB;

-- For services in any language, in their own transaction. The same message for the same destination is stored once.
-- Who may call it needs no right to the table. Each procedure is one statement, so that no client needs a DELIMITER.
-- Null stands for: no destination, a new message id, no headers, no correlation id, due at once (else a time in UTC),
-- 'Event', 24 hours after it is due with a destination and else for ever, as many attempts as the worker's policy says.
CREATE PROCEDURE IF NOT EXISTS {outbox}_enqueue_with(
    IN p_topic VARCHAR(255) CHARACTER SET utf8mb4, IN p_payload LONGTEXT CHARACTER SET utf8mb4,
    IN p_destination VARCHAR(255) CHARACTER SET utf8mb4, IN p_message_id VARCHAR(36) CHARACTER SET ascii,
    IN p_headers LONGTEXT CHARACTER SET utf8mb4, IN p_correlation_id VARCHAR(255) CHARACTER SET utf8mb4,
    IN p_due_at DATETIME(6), IN p_kind VARCHAR(32) CHARACTER SET utf8mb4, IN p_ttl_seconds BIGINT,
    IN p_max_attempts INT
) SQL SECURITY DEFINER
INSERT INTO {outbox} (id, message_id, kind, topic, payload, destination, headers, correlation_id, visible_at, due_at,
                      expires_at, max_attempts, created_at)
SELECT told.id, NULLIF(told.message, told.id), COALESCE(p_kind, 'Event'), p_topic, p_payload, p_destination, p_headers,
       p_correlation_id, GREATEST(told.at, COALESCE(told.due, told.at)), told.due,
       CASE WHEN p_ttl_seconds IS NOT NULL THEN told.at + p_ttl_seconds * 1000000
            WHEN p_destination IS NOT NULL THEN GREATEST(told.at, COALESCE(told.due, told.at)) + 86400000000 END,
       p_max_attempts, told.at
FROM (
    SELECT named.message, named.at, named.due, CASE WHEN p_destination IS NULL THEN named.message ELSE UNHEX(CONCAT(
               HEX(LEFT(named.message, 6)), '8', SUBSTR(named.hash, 14, 3),
               HEX(CONV(SUBSTR(named.hash, 17, 2), 16, 10) & 63 | 128), SUBSTR(named.hash, 19, 14))) END AS id
    FROM (
        SELECT made.message, made.at, made.due,
               SHA2(CONCAT(made.message, CAST(COALESCE(p_destination, '') AS BINARY)), 256) AS hash
        FROM (
            SELECT rolled.at, rolled.due, CASE
                -- A new id sorts by the time it was made (UUIDv7).
                WHEN p_message_id IS NULL THEN UNHEX(CONCAT(
                    LPAD(HEX(rolled.at DIV 1000), 12, '0'), '7', SUBSTR(rolled.dice, 1, 3),
                    HEX(CONV(SUBSTR(rolled.dice, 4, 2), 16, 10) & 63 | 128), SUBSTR(rolled.dice, 6, 14)))
                -- What is no UUID becomes null, and is refused.
                WHEN REPLACE(p_message_id, '-', '') REGEXP '^[0-9A-Fa-f]{32}$'
                    THEN UNHEX(REPLACE(p_message_id, '-', '')) END AS message
            FROM (
                -- Not NOW(): where clocks are set back, an hour of it comes twice.
                SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS at,
                       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_due_at) AS due,
                       SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 256) AS dice
            ) AS rolled
        ) AS made
    ) AS named
) AS told
ON DUPLICATE KEY UPDATE seq = seq;

-- What is mostly needed: CALL {outbox}_enqueue('order.placed', '{"order": 7}', NULL, NULL);
CREATE PROCEDURE IF NOT EXISTS {outbox}_enqueue(
    IN p_topic VARCHAR(255) CHARACTER SET utf8mb4, IN p_payload LONGTEXT CHARACTER SET utf8mb4,
    IN p_destination VARCHAR(255) CHARACTER SET utf8mb4, IN p_message_id VARCHAR(36) CHARACTER SET ascii
) SQL SECURITY DEFINER
CALL {outbox}_enqueue_with(
    p_topic, p_payload, p_destination, p_message_id, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE IF NOT EXISTS {s}postroom_schema (
    outbox        VARCHAR(64) NOT NULL,
    inbox         VARCHAR(64) NOT NULL,
    version       BIGINT      NOT NULL,
    maintained_at BIGINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (outbox, inbox)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO {s}postroom_schema (outbox, inbox, version) VALUES ('{outbox_name}', '{inbox_name}', 1)
ON DUPLICATE KEY UPDATE version = GREATEST(version, 1);
