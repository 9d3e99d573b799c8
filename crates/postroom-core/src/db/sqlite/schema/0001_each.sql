-- The lowest number that no claim has looked at, and the time up to which expired messages were looked for.
CREATE TABLE IF NOT EXISTS {t}_front (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    next       INTEGER NOT NULL,
    expired_to INTEGER NOT NULL
) STRICT;

INSERT INTO {t}_front (one, next, expired_to) VALUES (1, 1, 0) ON CONFLICT (one) DO NOTHING;

-- place: = and the topic of a message that is handled here, > and the destination of one that is sent.
CREATE TABLE IF NOT EXISTS {t}_line (
    seq        INTEGER PRIMARY KEY,
    place      TEXT    NOT NULL,
    visible_at INTEGER NOT NULL,
    expires_at INTEGER,
    crashes    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX IF NOT EXISTS {t}_line_due ON {t}_line (visible_at) WHERE crashes = 0;
CREATE INDEX IF NOT EXISTS {t}_line_place ON {t}_line (place, visible_at) WHERE crashes = 0;
-- Suspects are tried separately from the rest.
CREATE INDEX IF NOT EXISTS {t}_line_suspects ON {t}_line (visible_at) WHERE crashes > 0;
CREATE INDEX IF NOT EXISTS {t}_line_expiring ON {t}_line (expires_at) WHERE expires_at IS NOT NULL;

-- Leases. A lease is valid for a message if its run has the number, and the owner and the claim number are the same.
CREATE TABLE IF NOT EXISTS {t}_held (
    from_seq INTEGER PRIMARY KEY,
    to_seq   INTEGER NOT NULL,
    no       INTEGER NOT NULL, -- how often these messages have been claimed
    owner    BLOB,
    at       INTEGER,
    until    INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS {t}_held_until ON {t}_held (until);

CREATE TABLE IF NOT EXISTS {t}_trouble (
    seq             INTEGER PRIMARY KEY,
    state           INTEGER NOT NULL DEFAULT 0,
    at              INTEGER, -- when it entered its state; when it arrived last, if it is only known
    by              BLOB,
    attempts        INTEGER NOT NULL DEFAULT 0,
    crashes         INTEGER NOT NULL DEFAULT 0,
    claims          INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    last_attempt_at INTEGER,
    expires_at      INTEGER, -- instead of the message's own
    last_error      TEXT,
    dismissed_by    TEXT,
    dismissed_why   TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS {t}_trouble_ended ON {t}_trouble (state, seq) WHERE state > 0;
CREATE INDEX IF NOT EXISTS {t}_trouble_old ON {t}_trouble (state, at) WHERE state > 0;
-- Dead letters whose time to live is not over yet.
CREATE INDEX IF NOT EXISTS {t}_trouble_lapsing ON {t}_trouble (expires_at) WHERE state = 3 AND expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {t}_done (
    from_seq   INTEGER PRIMARY KEY,
    to_seq     INTEGER NOT NULL,
    no         INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    by         BLOB,
    claimed_at INTEGER,
    response   TEXT -- of a single message
) STRICT;

CREATE INDEX IF NOT EXISTS {t}_done_at ON {t}_done (at);

-- Answers that came apart from the ack.
CREATE TABLE IF NOT EXISTS {t}_answer (
    seq      INTEGER PRIMARY KEY,
    response TEXT    NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS {t}_failures (
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker  BLOB,
    error   TEXT,
    code    TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS {t}_failures_seq ON {t}_failures (seq);

-- Destinations and handlers that are held because they failed.
CREATE TABLE IF NOT EXISTS {t}_holds (
    kind     TEXT    NOT NULL, -- service or topic
    name     TEXT    NOT NULL,
    owner    BLOB    NOT NULL,
    since    INTEGER NOT NULL,
    tried_at INTEGER NOT NULL,
    code     TEXT,
    why      TEXT,
    PRIMARY KEY (kind, name, owner)
) STRICT, WITHOUT ROWID;

-- Lanes: messages that name the same lane are handled in the order of their commits. Only messages that a claim has
-- looked at and that are not finished have a row here. Writers take turns, so nothing else is needed to keep the order.
CREATE TABLE IF NOT EXISTS {t}_lane (
    seq        INTEGER PRIMARY KEY,
    lane       TEXT    NOT NULL,
    no         INTEGER NOT NULL, -- its place in the order: its number times 2^24, or behind all messages if it came back
    at         INTEGER NOT NULL, -- when it is due
    expires_at INTEGER,
    place      INTEGER NOT NULL  -- 0: it waits for its turn; 1: it is in the line or in progress; 3: it is dead, and
                                 -- those behind it wait; -1: it comes back, for the trigger that looks at the others
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {t}_lane_order ON {t}_lane (lane, no);
CREATE INDEX IF NOT EXISTS {t}_lane_waiting ON {t}_lane (at) WHERE place = 0;
CREATE INDEX IF NOT EXISTS {t}_lane_expiring ON {t}_lane (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS {t}_lane_dead ON {t}_lane (lane, no) WHERE place = 3;

-- What an operator set. kind: queue; topic or service, for its messages; lane; lanes, for those of a topic
CREATE TABLE IF NOT EXISTS {t}_rules (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    places     INTEGER, -- how many at once
    on_dead    INTEGER, -- 0 block, 1 skip, 2 newest only
    every      INTEGER, -- microseconds from one to the next
    burst      INTEGER,
    paused_at  INTEGER,
    paused_by  TEXT,
    paused_why TEXT,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- For a message that is the first one of its lane: how many of the lane have the turn at once, and what follows when one
-- dies (on_dead). What is set for a lane wins over what is set for the topic. An UPDATE of this view looks at the lane.
CREATE VIEW IF NOT EXISTS {t}_lane_head AS
SELECT w.seq, w.lane,
    CASE WHEN r.paused_at IS NULL AND g.paused_at IS NULL THEN coalesce(r.places, g.places, 1) ELSE 0 END AS places,
    coalesce(r.on_dead, g.on_dead, 0) AS on_dead
FROM {t}_lane AS w CROSS JOIN {t} AS m ON m.seq = w.seq
    LEFT JOIN {t}_rules AS r ON r.kind = 'lane' AND r.name = w.lane
    LEFT JOIN {t}_rules AS g ON g.kind = 'lanes' AND g.name = m.topic;

-- When the next message of a place with a rate may start.
CREATE TABLE IF NOT EXISTS {t}_rates (
    kind TEXT    NOT NULL,
    name TEXT    NOT NULL,
    tat  INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Messages in progress that are to stop: under which claim, since when, who asked and why. An ack does not look here:
-- it wins, and the row is swept away. Every other end of the claim dismisses the message.
CREATE TABLE IF NOT EXISTS {t}_stops (
    seq      INTEGER NOT NULL,
    claim_no INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    why      TEXT    NOT NULL,
    PRIMARY KEY (seq, claim_no)
) STRICT, WITHOUT ROWID;

-- Actions of operators: who, what, how many messages, and why.
CREATE TABLE IF NOT EXISTS {t}_audit (
    act      BLOB    NOT NULL,
    what     TEXT    NOT NULL,
    messages INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    why      TEXT,
    chosen   TEXT,
    PRIMARY KEY (act, what)
) STRICT;

-- Messages that no claim has looked at.
CREATE VIEW IF NOT EXISTS {t}_fresh AS
SELECT {wide_fresh}, 0 AS state, m.visible_at, 0 AS claim_no, NULL AS owner, NULL AS locked_until,
    NULL AS last_attempt_at, NULL AS processed_at, NULL AS processed_by, a.response
FROM {t}_front AS f CROSS JOIN {t} AS m{beside}
WHERE f.one = 1 AND m.seq >= f.next AND m.born = 0 AND t.seq IS NULL;

-- Every message with its state, for a message by its number, id or key. An UPDATE of this view moves messages.
CREATE VIEW IF NOT EXISTS {t}_state AS
SELECT {wide},
    CASE WHEN l.seq IS NOT NULL THEN 0 WHEN h.from_seq IS NOT NULL THEN 1 WHEN t.state > 0 THEN t.state
         WHEN d.from_seq IS NOT NULL THEN 2 WHEN w.seq IS NOT NULL THEN 0
         WHEN m.born = 0 AND t.seq IS NULL AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1) THEN 0
         ELSE -1 END AS state, -- it stands nowhere: doctor reports it
    CASE WHEN l.seq IS NOT NULL THEN l.visible_at WHEN h.from_seq IS NOT NULL THEN h.until
         WHEN w.seq IS NOT NULL THEN w.at WHEN d.from_seq IS NOT NULL OR t.seq IS NOT NULL THEN NULL ELSE m.visible_at END AS visible_at,
    coalesce(h.no, d.no, t.claims, 0) AS claim_no, h.owner AS owner, h.until AS locked_until,
    CASE WHEN h.from_seq IS NOT NULL THEN h.at WHEN d.from_seq IS NOT NULL THEN d.claimed_at
         ELSE t.last_attempt_at END AS last_attempt_at,
    CASE WHEN d.from_seq IS NOT NULL THEN d.at WHEN t.state IN (2, 3, 4, 7) THEN t.at END AS processed_at,
    CASE WHEN d.from_seq IS NOT NULL THEN d.by WHEN t.state > 0 THEN t.by END AS processed_by,
    coalesce(d.response, a.response) AS response
FROM {t} AS m{beside}
    LEFT JOIN {t}_line AS l ON l.seq = m.seq
    LEFT JOIN {t}_lane AS w ON m.lane IS NOT NULL AND w.seq = m.seq AND w.place = 0
    LEFT JOIN {t}_held AS h
        ON h.from_seq = (SELECT max(from_seq) FROM {t}_held WHERE from_seq <= m.seq) AND h.to_seq >= m.seq
    LEFT JOIN {t}_done AS d
        ON d.from_seq = (SELECT max(from_seq) FROM {t}_done WHERE from_seq <= m.seq) AND d.to_seq >= m.seq;

-- The same messages, for those in one state.
CREATE VIEW IF NOT EXISTS {t}_by_state AS
SELECT * FROM {t}_fresh
UNION ALL
SELECT {wide}, 0, l.visible_at, coalesce(t.claims, 0), NULL, NULL, t.last_attempt_at, NULL, NULL, a.response
FROM {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq{beside}
UNION ALL
SELECT {wide}, 0, w.at, coalesce(t.claims, 0), NULL, NULL, t.last_attempt_at, NULL, NULL, a.response
FROM {t}_lane AS w CROSS JOIN {t} AS m ON m.seq = w.seq{beside}
WHERE w.place = 0
UNION ALL
SELECT {wide}, 1, h.until, h.no, h.owner, h.until, h.at, NULL, NULL, a.response
FROM {t}_held AS h CROSS JOIN {t} AS m ON m.seq BETWEEN h.from_seq AND h.to_seq{beside}
UNION ALL
SELECT {wide}, 2, NULL, d.no, NULL, NULL, d.claimed_at, d.at, d.by, coalesce(d.response, a.response)
FROM {t}_done AS d CROSS JOIN {t} AS m ON m.seq BETWEEN d.from_seq AND d.to_seq{beside}
UNION ALL
SELECT {wide_ended}, t.state, NULL, t.claims, NULL, NULL, t.last_attempt_at,
    CASE WHEN t.state IN (2, 3, 4, 7) THEN t.at END, t.by, a.response
FROM {t}_trouble AS t CROSS JOIN {t} AS m ON m.seq = t.seq{beside_ended}
WHERE t.state > 0;

-- Messages that do not stand in exactly one place, runs that overlap, and places without a message. It is always empty.
CREATE VIEW IF NOT EXISTS {t}_misplaced AS
SELECT m.seq, coalesce(l.seq IS NOT NULL, 0) + coalesce(h.from_seq IS NOT NULL, 0)
    + coalesce(d.from_seq IS NOT NULL, 0) + coalesce(t.state > 0, 0) + coalesce(w.place = 0, 0)
    + (m.born = 0 AND t.seq IS NULL AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1)) AS places
FROM {t} AS m
    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq
    LEFT JOIN {t}_line AS l ON l.seq = m.seq
    LEFT JOIN {t}_lane AS w ON w.seq = m.seq
    LEFT JOIN {t}_held AS h
        ON h.from_seq = (SELECT max(from_seq) FROM {t}_held WHERE from_seq <= m.seq) AND h.to_seq >= m.seq
    LEFT JOIN {t}_done AS d
        ON d.from_seq = (SELECT max(from_seq) FROM {t}_done WHERE from_seq <= m.seq) AND d.to_seq >= m.seq
WHERE places <> 1
UNION ALL
SELECT h.from_seq, 2 FROM {t}_held AS h
WHERE EXISTS (SELECT 1 FROM {t}_held AS o WHERE o.from_seq > h.from_seq AND o.from_seq <= h.to_seq)
UNION ALL
SELECT d.from_seq, 2 FROM {t}_done AS d
WHERE EXISTS (SELECT 1 FROM {t}_done AS o WHERE o.from_seq > d.from_seq AND o.from_seq <= d.to_seq)
UNION ALL
SELECT l.seq, 0 FROM {t}_line AS l WHERE NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = l.seq)
UNION ALL
SELECT t.seq, 0 FROM {t}_trouble AS t WHERE NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = t.seq)
UNION ALL
-- The first of a lane that waits, and should have its turn; one that stands in the line out of turn; a turn without a
-- message that has it, and the reverse.
SELECT seq, CASE WHEN place = 0 THEN 0 ELSE 2 END FROM (
    SELECT w.seq, w.place,
        NOT EXISTS (SELECT 1 FROM {t}_lane AS o WHERE o.lane = w.lane AND o.no < w.no AND o.place = 3)
        AND (SELECT count(*) FROM {t}_lane AS o WHERE o.lane = w.lane AND o.no < w.no) < (
            SELECT r.places FROM {t}_lane_head AS r
            WHERE r.seq = (SELECT o.seq FROM {t}_lane AS o WHERE o.lane = w.lane ORDER BY o.no LIMIT 1)) AS has_turn
    FROM {t}_lane AS w
    WHERE CASE WHEN w.place = 1 THEN EXISTS (SELECT 1 FROM {t}_line AS l WHERE l.seq = w.seq)
               ELSE w.place = 0 AND NOT EXISTS (
                   SELECT 1 FROM {t}_lane AS o WHERE o.lane = w.lane AND o.no < w.no AND o.place = 0) END)
WHERE has_turn <> (place = 1)
UNION ALL
SELECT w.seq, 0 FROM {t}_lane AS w LEFT JOIN {t}_trouble AS t ON t.seq = w.seq
WHERE w.place = 3 AND t.state IS NOT 3
   OR w.place = 1 AND NOT EXISTS (SELECT 1 FROM {t}_line AS l WHERE l.seq = w.seq)
      AND NOT EXISTS (SELECT 1 FROM {t}_held AS h WHERE w.seq BETWEEN h.from_seq AND h.to_seq)
   OR NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = w.seq AND m.lane = w.lane)
UNION ALL
SELECT l.seq, 0 FROM {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq
WHERE m.lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {t}_lane AS w WHERE w.seq = l.seq AND w.place = 1);

-- An ack: the messages are no longer held. A message that was handled as it arrived was not.
CREATE TRIGGER IF NOT EXISTS {t}_acked AFTER INSERT ON {t}_done
WHEN NEW.from_seq <= (SELECT to_seq FROM {t}_held WHERE from_seq <= NEW.to_seq ORDER BY from_seq DESC LIMIT 1)
BEGIN
    INSERT INTO {t}_held (from_seq, to_seq, no, owner, at, until)
    SELECT NEW.to_seq + 1, to_seq, no, owner, at, until FROM {t}_held
    WHERE from_seq = (SELECT max(from_seq) FROM {t}_held WHERE from_seq <= NEW.from_seq) AND to_seq > NEW.to_seq;
    UPDATE {t}_held SET to_seq = NEW.from_seq - 1
    WHERE from_seq = (SELECT max(from_seq) FROM {t}_held WHERE from_seq < NEW.from_seq) AND to_seq >= NEW.from_seq;
    DELETE FROM {t}_held WHERE from_seq = NEW.from_seq;
    DELETE FROM {t}_lane WHERE seq BETWEEN NEW.from_seq AND NEW.to_seq;
END;

-- A message leaves its lane, and the next one has its turn. If another topic is the first one now, its rule judges those
-- that died.
CREATE TRIGGER IF NOT EXISTS {t}_lane_left AFTER DELETE ON {t}_lane
WHEN EXISTS (SELECT 1 FROM {t}_lane WHERE lane = OLD.lane)
BEGIN
    UPDATE {t}_lane SET place = 3 WHERE lane = OLD.lane AND place = 3 AND {has_lane_rules};
    UPDATE {t}_lane_head SET places = places
    WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = OLD.lane ORDER BY no LIMIT 1);
END;

-- A look at a lane. The first messages have the turn, none behind a dead one. If there are rules, some that stand in the
-- line may no longer have it.
CREATE TRIGGER IF NOT EXISTS {t}_lane_looked INSTEAD OF UPDATE ON {t}_lane_head
BEGIN
    UPDATE {t}_lane SET place = 0
    WHERE {has_lane_rules} AND lane = OLD.lane AND place = 1 AND EXISTS (SELECT 1 FROM {t}_line AS l WHERE l.seq = {t}_lane.seq)
      AND no < coalesce((SELECT no FROM {t}_lane WHERE lane = OLD.lane AND place = 0 ORDER BY no LIMIT 1),
                        9223372036854775807)
      AND seq NOT IN ({first_of_lane});
    UPDATE {t}_lane SET place = 1 WHERE place = 0 AND seq IN ({first_of_lane});
END;

-- A message comes back to its lane. Messages that no claim has looked at come before it, or it before them, so they
-- enter the lane as well. The first ones have their turn.
CREATE TRIGGER IF NOT EXISTS {t}_lane_back AFTER INSERT ON {t}_lane WHEN NEW.place < 0
BEGIN
    {enter_lane}
    UPDATE {t}_lane SET place = 0 WHERE seq = NEW.seq;
    UPDATE {t}_lane SET place = 3 WHERE lane = NEW.lane AND place = 3 AND {has_lane_rules};
    UPDATE {t}_lane_head SET places = places
    WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = NEW.lane ORDER BY no LIMIT 1);
END;

-- A message has its turn, and stands in the line.
CREATE TRIGGER IF NOT EXISTS {t}_lane_turn AFTER UPDATE OF place ON {t}_lane WHEN OLD.place = 0 AND NEW.place = 1
BEGIN
    INSERT INTO {t}_line (seq, place, visible_at, expires_at, crashes)
    SELECT m.seq, {place}, NEW.at, NEW.expires_at, coalesce(t.crashes, 0)
    FROM {t} AS m LEFT JOIN {t}_trouble AS t ON t.seq = m.seq WHERE m.seq = NEW.seq;
END;

-- A message no longer has its turn. This is apart from the next trigger, inside which that one does not run again.
CREATE TRIGGER IF NOT EXISTS {t}_lane_unlined BEFORE UPDATE OF place ON {t}_lane WHEN OLD.place = 1 AND NEW.place = 0
BEGIN
    DELETE FROM {t}_line WHERE seq = OLD.seq;
END;

-- A message waits, or has its turn again at once.
CREATE TRIGGER IF NOT EXISTS {t}_lane_waits AFTER UPDATE OF place ON {t}_lane WHEN OLD.place >= 0 AND NEW.place = 0
BEGIN
    UPDATE {t}_lane_head SET places = places
    WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = NEW.lane ORDER BY no LIMIT 1);
END;

-- A message died. If it blocks its lane, what stands behind it waits. Otherwise it leaves. If only the newest is to go
-- on, the others that wait are dismissed; as long as the dead one is there, nobody has the turn.
CREATE TRIGGER IF NOT EXISTS {t}_lane_died AFTER UPDATE OF place ON {t}_lane WHEN NEW.place = 3
BEGIN
    {enter_lane}
    INSERT INTO {t}_trouble (seq, state, at, expires_at, dismissed_by, dismissed_why)
    SELECT w.seq, 7, (SELECT at FROM {t}_trouble WHERE seq = NEW.seq), w.expires_at, 'postroom', 'superseded in its lane'
    FROM {t}_lane AS w
    WHERE w.lane = NEW.lane AND w.place = 0 AND 2 = ({policy_of_lane})
      AND w.no < (SELECT o.no FROM {t}_lane AS o WHERE o.lane = NEW.lane AND o.place = 0 ORDER BY o.no DESC LIMIT 1)
    ON CONFLICT (seq) DO UPDATE SET state = excluded.state, at = excluded.at, dismissed_by = excluded.dismissed_by,
        dismissed_why = excluded.dismissed_why;
    DELETE FROM {t}_lane WHERE lane = NEW.lane AND place = 0 AND 2 = ({policy_of_lane})
      AND no < (SELECT o.no FROM {t}_lane AS o WHERE o.lane = NEW.lane AND o.place = 0 ORDER BY o.no DESC LIMIT 1);
    DELETE FROM {t}_lane WHERE seq = NEW.seq AND 0 < ({policy_of_lane});
    UPDATE {t}_lane_head SET places = places
    WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = NEW.lane ORDER BY no LIMIT 1);
END;

-- The first message of a lane may have another topic now, with another rule.
CREATE TRIGGER IF NOT EXISTS {t}_lane_renamed AFTER UPDATE OF topic ON {t} WHEN NEW.lane IS NOT NULL
BEGIN
    UPDATE {t}_lane SET place = 3 WHERE lane = NEW.lane AND place = 3 AND {has_lane_rules};
    UPDATE {t}_lane_head SET places = places
    WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = NEW.lane ORDER BY no LIMIT 1);
END;

-- A rule of lanes changed. Messages that have their turn and that nobody has claimed step back; the dead are judged
-- anew; and each of these lanes is looked at.
CREATE TRIGGER IF NOT EXISTS {t}_lanes_ruled AFTER UPDATE ON {t}_rules WHEN NEW.kind IN ('lane', 'lanes')
BEGIN
    UPDATE {t}_lane SET place = 0
    WHERE lane IN ({ruled_lanes}) AND place = 1 AND EXISTS (SELECT 1 FROM {t}_line AS l WHERE l.seq = {t}_lane.seq);
    UPDATE {t}_lane SET place = 3 WHERE lane IN ({ruled_lanes}) AND place = 3;
    UPDATE {t}_lane_head SET places = places
    WHERE seq IN (SELECT (SELECT w.seq FROM {t}_lane AS w WHERE w.lane = ruled.lane ORDER BY w.no LIMIT 1)
                  FROM ({ruled_lanes}) AS ruled);
END;

-- A message moves: it leaves where it stands and is written where it goes.
CREATE TRIGGER IF NOT EXISTS {t}_moved INSTEAD OF UPDATE ON {t}_state
BEGIN
    UPDATE {t} SET due_at = NEW.due_at, created_at = NEW.created_at
    WHERE seq = OLD.seq AND (due_at IS NOT NEW.due_at OR created_at <> NEW.created_at);
    DELETE FROM {t}_line WHERE seq = OLD.seq;
    {leave|held|no, owner, at, until}
    {leave|done|no, at, by, claimed_at, response}
    INSERT INTO {t}_trouble (seq, state, at, by, attempts, crashes, claims, next_attempt_at, last_attempt_at,
        expires_at, last_error, dismissed_by, dismissed_why)
    VALUES (OLD.seq, CASE WHEN NEW.state > 1 THEN NEW.state ELSE 0 END, NEW.processed_at,
        NEW.processed_by, NEW.attempts, NEW.crashes, NEW.claim_no, NEW.next_attempt_at, NEW.last_attempt_at,
        NEW.expires_at, NEW.last_error, NEW.dismissed_by, NEW.dismissed_why)
    ON CONFLICT (seq) DO UPDATE SET state = excluded.state,
        at = CASE WHEN excluded.state IN (5, 6) THEN at ELSE excluded.at END,
        by = excluded.by, attempts = excluded.attempts, crashes = excluded.crashes, claims = excluded.claims,
        next_attempt_at = excluded.next_attempt_at, last_attempt_at = excluded.last_attempt_at,
        expires_at = excluded.expires_at, last_error = excluded.last_error, dismissed_by = excluded.dismissed_by,
        dismissed_why = excluded.dismissed_why;
    -- In a lane it keeps its number while it is retried, and when its last attempt failed. It leaves when it has ended
    -- otherwise, or if somebody takes it out of turn. If it comes back after that, it stands behind all others; if it
    -- was not looked at, it keeps its number. Triggers on the lane decide who has the turn.
    DELETE FROM {t}_lane WHERE seq = OLD.seq AND (NEW.state NOT IN (0, 1, 3) OR NEW.state = 1 AND place = 0
        OR NEW.state = 3 AND (OLD.state NOT IN (1, 3) OR NEW.claim_no <> OLD.claim_no));
    INSERT INTO {t}_line (seq, place, visible_at, expires_at, crashes)
    SELECT seq, {place}, NEW.visible_at, NEW.expires_at, NEW.crashes FROM {t}
    WHERE seq = OLD.seq AND NEW.state = 0 AND lane IS NULL;
    UPDATE {t}_lane SET place = NEW.state, at = coalesce(NEW.visible_at, at), expires_at = NEW.expires_at
    WHERE seq = OLD.seq AND NEW.state IN (0, 1, 3);
    INSERT INTO {t}_lane (seq, lane, no, at, expires_at, place)
    SELECT OLD.seq, OLD.lane, CASE WHEN OLD.state = 0 THEN OLD.seq << 24 ELSE 1 + max(
            (SELECT max(seq) FROM {t}) << 24, coalesce((SELECT max(no) FROM {t}_lane WHERE lane = OLD.lane), 0)) END,
        NEW.visible_at, NEW.expires_at, -1
    WHERE OLD.lane IS NOT NULL AND NEW.state = 0 AND NOT EXISTS (SELECT 1 FROM {t}_lane AS w WHERE w.seq = OLD.seq);
    INSERT INTO {t}_held (from_seq, to_seq, no, owner, at, until)
    SELECT OLD.seq, OLD.seq, NEW.claim_no, NEW.owner, NEW.last_attempt_at, NEW.locked_until WHERE NEW.state = 1;
    DELETE FROM {t}_answer WHERE seq = OLD.seq AND NEW.response IS NOT OLD.response;
    INSERT INTO {t}_answer (seq, response) SELECT OLD.seq, NEW.response WHERE NEW.response IS NOT NULL
    ON CONFLICT (seq) DO NOTHING;
END;

CREATE TRIGGER IF NOT EXISTS {t}_deleted AFTER DELETE ON {t}
BEGIN
    DELETE FROM {t}_line WHERE seq = OLD.seq;
    {leave|held|no, owner, at, until}
    {leave|done|no, at, by, claimed_at, response}
    DELETE FROM {t}_lane WHERE seq = OLD.seq;
    DELETE FROM {t}_trouble WHERE seq = OLD.seq;
    DELETE FROM {t}_answer WHERE seq = OLD.seq;
    DELETE FROM {t}_failures WHERE seq = OLD.seq;
END;

