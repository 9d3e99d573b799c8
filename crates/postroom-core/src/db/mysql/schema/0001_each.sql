-- What waits. place: = and the topic of a message that is handled here, > and the destination of one that is sent.
CREATE TABLE IF NOT EXISTS {t}_line (
    visible_at BIGINT       NOT NULL,
    seq        BIGINT       NOT NULL,
    place      VARCHAR(256) NOT NULL,
    expires_at BIGINT,
    crashes    INT          NOT NULL DEFAULT 0,
    claims     BIGINT       NOT NULL DEFAULT 0, -- how often it has been claimed
    bytes      BIGINT       NOT NULL,           -- of its payload
    PRIMARY KEY (visible_at, seq),
    KEY {n}_line_expiring (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One lease for each claimed batch. A lease is over when nothing is held under it, or when its time is.
CREATE TABLE IF NOT EXISTS {t}_lease (
    no    BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    until BIGINT NOT NULL,
    KEY {n}_lease_until (until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What a claim took. It is held as long as done_at is 0: a settle must find owner and claim number as they are.
-- An ack changes numbers in their place, so it moves no row.
CREATE TABLE IF NOT EXISTS {t}_taken (
    seq        BIGINT     NOT NULL PRIMARY KEY,
    lease      BIGINT     NOT NULL, -- 0 when it is done
    claim_no   BIGINT     NOT NULL,
    owner      BINARY(16), -- who holds it, or who is done with it
    at         BIGINT,     -- when it was claimed
    visible_at BIGINT,     -- where it stood in the line
    done_at    BIGINT     NOT NULL DEFAULT 0,
    response   LONGTEXT,   -- an answer that came with the ack
    KEY {n}_taken_by (done_at, lease)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {t}_trouble (
    seq             BIGINT   NOT NULL PRIMARY KEY,
    state           SMALLINT NOT NULL DEFAULT 0,
    at              BIGINT,  -- when it entered its state; when it arrived last, if it is only known
    processed_by    BINARY(16),
    attempts        INT      NOT NULL DEFAULT 0,
    crashes         INT      NOT NULL DEFAULT 0,
    claims          BIGINT   NOT NULL DEFAULT 0,
    visible_at      BIGINT,  -- where it stands in the line, instead of the message's own
    next_attempt_at BIGINT,
    last_attempt_at BIGINT,
    expires_at      BIGINT,  -- instead of the message's own
    last_error      TEXT,
    dismissed_by    VARCHAR(255),
    dismissed_why   TEXT,
    -- Suspects are tried separately from the rest.
    suspect_at      BIGINT GENERATED ALWAYS AS (CASE WHEN state = 0 AND crashes > 0 THEN visible_at END) VIRTUAL,
    KEY {n}_trouble_ended (state, seq),
    KEY {n}_trouble_old (state, at),
    KEY {n}_trouble_lapsing (state, expires_at),
    KEY {n}_trouble_suspects (suspect_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Answers that came apart from the ack.
CREATE TABLE IF NOT EXISTS {t}_answer (
    seq      BIGINT   NOT NULL PRIMARY KEY,
    response LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {t}_failures (
    no      BIGINT     NOT NULL AUTO_INCREMENT PRIMARY KEY,
    seq     BIGINT     NOT NULL,
    at      BIGINT     NOT NULL,
    attempt INT        NOT NULL,
    worker  BINARY(16),
    error   TEXT,
    code    VARCHAR(32),
    KEY {n}_failures_seq (seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Destinations and handlers that are held because they failed.
CREATE TABLE IF NOT EXISTS {t}_holds (
    kind     VARCHAR(16)  NOT NULL, -- service or topic
    name     VARCHAR(255) NOT NULL,
    owner    BINARY(16)   NOT NULL,
    since    BIGINT       NOT NULL,
    tried_at BIGINT       NOT NULL,
    code     VARCHAR(32),
    why      TEXT,
    PRIMARY KEY (kind, name, owner)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Lanes: messages that name the same lane are handled in the order of their commits. A message without one has no row
-- here. place: 0 waits for its turn, 1 is in the line or in progress, 2 died, 3 cannot go on by itself.
CREATE TABLE IF NOT EXISTS {t}_lane (
    lane  VARBINARY(1020) NOT NULL,
    no    BIGINT          NOT NULL, -- in the order of commits
    seq   BIGINT          NOT NULL,
    at    BIGINT          NOT NULL,
    place TINYINT         NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, no)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Lanes to look at, because something arrived or ended. A note is written and deleted, never changed.
CREATE TABLE IF NOT EXISTS {t}_lane_notes (
    id   BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    lane VARBINARY(1020) NOT NULL,
    past BIGINT, -- the number that left
    seq  BIGINT, -- the message that arrived
    at   BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What was set for a lane, topic, destination or tenant. kind: lane, topic, service, tenant
CREATE TABLE IF NOT EXISTS {t}_lane_rules (
    kind       VARCHAR(16)     NOT NULL,
    name       VARBINARY(1020) NOT NULL,
    places     INT,     -- how many at once
    on_dead    TINYINT, -- 0 block, 1 skip, 2 newest only
    every      BIGINT,  -- microseconds from one to the next
    burst      INT,
    paused_at  BIGINT,
    paused_by  VARCHAR(255),
    paused_why TEXT,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- When the next message of a place with a rate may start.
CREATE TABLE IF NOT EXISTS {t}_lane_rates (
    kind VARCHAR(16)     NOT NULL,
    name VARBINARY(1020) NOT NULL,
    tat  BIGINT          NOT NULL,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Actions of operators: who, what, how many messages, and why.
CREATE TABLE IF NOT EXISTS {t}_audit (
    act      BINARY(16)   NOT NULL,
    what     VARCHAR(16)  NOT NULL,
    messages BIGINT       NOT NULL,
    at       BIGINT       NOT NULL,
    who      VARCHAR(255) NOT NULL,
    why      TEXT,
    chosen   TEXT,
    PRIMARY KEY (act, what)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TRIGGER IF NOT EXISTS {t}_deleted AFTER DELETE ON {t} FOR EACH ROW
BEGIN
    DELETE FROM {t}_line
    WHERE seq = OLD.seq
      AND visible_at = COALESCE((SELECT t.visible_at FROM {t}_trouble AS t WHERE t.seq = OLD.seq), OLD.visible_at);
    DELETE FROM {t}_taken WHERE seq = OLD.seq;
    DELETE FROM {t}_trouble WHERE seq = OLD.seq;
    DELETE FROM {t}_answer WHERE seq = OLD.seq;
    DELETE FROM {t}_failures WHERE seq = OLD.seq;
END;

{views}
{procedures}
