-- What waits. place: = and the topic of a message that is handled here, > and the destination of one that is sent.
CREATE TABLE IF NOT EXISTS {t}_line (
    visible_at BIGINT       NOT NULL,
    seq        BIGINT       NOT NULL,
    place      VARCHAR(256) NOT NULL,
    expires_at BIGINT,
    crashes    INT          NOT NULL DEFAULT 0,
    claims     BIGINT       NOT NULL DEFAULT 0, -- how often it has been claimed
    bytes      BIGINT       NOT NULL,           -- of its payload
    laned      TINYINT      NOT NULL DEFAULT 0, -- 1: it has a row in its lane
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
-- An ack changes numbers in their place, so it moves no row. If the message has a lane, its ack makes done_at negative:
-- the lane is to be looked at. A look takes the message out of its lane and makes done_at positive. A trigger would slow
-- down all acks.
CREATE TABLE IF NOT EXISTS {t}_taken (
    seq        BIGINT     NOT NULL PRIMARY KEY,
    lease      BIGINT     NOT NULL, -- 0 when it is done
    claim_no   BIGINT     NOT NULL,
    owner      BINARY(16), -- who holds it, or who is done with it
    at         BIGINT,     -- when it was claimed
    visible_at BIGINT,     -- where it stood in the line
    done_at    BIGINT     NOT NULL DEFAULT 0,
    laned      TINYINT    NOT NULL DEFAULT 0, -- 1: it has a row in its lane, until it is done
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
-- Rows with place 9 and the name '' are locks. Who enters a lane locks one of them until its commit and takes the next
-- number from it (in `at`). So the numbers of a lane follow the order of commits. Lanes share 1,024 of them, which exist
-- from the start. They are here because each table that a trigger may write makes every insert slower.
CREATE TABLE IF NOT EXISTS {t}_lane (
    lane       VARBINARY(1020) NOT NULL,
    no         BIGINT          NOT NULL, -- in the order of commits
    seq        BIGINT          NOT NULL,
    at         BIGINT          NOT NULL, -- when it is due
    place      TINYINT         NOT NULL DEFAULT 0,
    news       TINYINT         NOT NULL DEFAULT 1, -- 1: it came, and nobody has looked at its lane since
    past       BIGINT          NOT NULL DEFAULT 0, -- when its turn came, nothing stood in the lane below this number
    expires_at BIGINT,                   -- only while it waits
    bytes      BIGINT          NOT NULL, -- of its payload
    route      VARCHAR(256)    NOT NULL, -- its place in the line
    PRIMARY KEY (lane, no),
    UNIQUE KEY {n}_lane_seq (seq),
    KEY {n}_lane_news (news, seq),
    KEY {n}_lane_expiring (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO {t}_lane (lane, no, seq, at, place, news, bytes, route)
WITH RECURSIVE n AS (SELECT 0 AS d UNION ALL SELECT d + 1 FROM n WHERE d < 31)
SELECT '', -1 - a.d * 32 - b.d, -1 - a.d * 32 - b.d, 0, 9, 0, 0, '' FROM n AS a CROSS JOIN n AS b;

-- Lanes to look at, because something happened that is neither an arrival nor an ack. A note is written and deleted,
-- never changed. A row with `news`, and one of _taken with a negative done_at, say the same.
CREATE TABLE IF NOT EXISTS {t}_lane_notes (
    id   BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    lane VARBINARY(1020) NOT NULL,
    past BIGINT -- nothing is left in the lane below this number; null: nobody knows
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What an operator set. kind: queue; topic or service, for its messages; lane; lanes, for those of a topic
CREATE TABLE IF NOT EXISTS {t}_rules (
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
CREATE TABLE IF NOT EXISTS {t}_rates (
    kind VARCHAR(16)     NOT NULL,
    name VARBINARY(1020) NOT NULL,
    tat  BIGINT          NOT NULL,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages in progress that are to stop: under which claim, since when, who asked and why. An ack does not look here:
-- it wins, and the row is swept away. Every other end of the claim dismisses the message.
CREATE TABLE IF NOT EXISTS {t}_stops (
    seq      BIGINT       NOT NULL,
    claim_no BIGINT       NOT NULL,
    at       BIGINT       NOT NULL,
    who      VARCHAR(255) NOT NULL,
    why      TEXT         NOT NULL,
    PRIMARY KEY (seq, claim_no)
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
    -- First: whoever has not let it into the line by now cannot do it any more.
    IF OLD.lane IS NOT NULL THEN
        CALL {t}_lane_leave(OLD.seq);
    END IF;
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
{lane_procedures}
