-- Waiting messages. place: = and the topic of one that is handled here, > and the destination of one that is sent.
-- A row is written and deleted, never updated, so vacuum runs early and takes no lock to shorten the table.
CREATE TABLE IF NOT EXISTS {t}_line (
    visible_at bigint  NOT NULL,
    seq        bigint  NOT NULL,
    expires_at bigint,
    crashes    smallint NOT NULL DEFAULT 0,
    laned      boolean  NOT NULL DEFAULT false, -- it has a row in _lane. Between two numbers it takes no room
    claims     integer  NOT NULL DEFAULT 0, -- how often the message has been claimed
    bytes      integer  NOT NULL,           -- of its payload
    place      text     NOT NULL COLLATE "C",
    PRIMARY KEY (visible_at, seq)
) WITH ({hot});

-- Suspects are tried separately from the rest.
CREATE INDEX IF NOT EXISTS {n}_suspects ON {t}_line (visible_at, seq) WHERE crashes > 0;
CREATE INDEX IF NOT EXISTS {n}_expiring ON {t}_line (expires_at) WHERE expires_at IS NOT NULL;

-- One lease for all n messages of a claim, whose numbers are between the first and the last.
CREATE TABLE IF NOT EXISTS {t}_lease (
    no        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        bigint,
    until     bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    n         integer NOT NULL
) WITH ({hot});

CREATE INDEX IF NOT EXISTS {n}_until ON {t}_lease (until);

-- Messages in progress. Whoever settles a message deletes its row, with the same owner and claim number.
CREATE TABLE IF NOT EXISTS {t}_held (
    seq      bigint  PRIMARY KEY,
    lease    bigint  NOT NULL,
    owner    uuid,
    claim_no integer NOT NULL,
    laned    boolean NOT NULL DEFAULT false -- as in _line
) WITH (fillfactor = 90, {hot});

CREATE TABLE IF NOT EXISTS {t}_done (
    from_seq   bigint  PRIMARY KEY,
    to_seq     bigint  NOT NULL,
    at         bigint  NOT NULL,
    claimed_at bigint,
    by         uuid,
    no         integer NOT NULL
);

CREATE INDEX IF NOT EXISTS {n}_done_at ON {t}_done (at);

CREATE TABLE IF NOT EXISTS {t}_trouble (
    seq             bigint   PRIMARY KEY,
    at              bigint,  -- when it entered its state; when it arrived last, if it is only known
    visible_at      bigint,  -- while it waits, instead of the message's own
    expires_at      bigint,  -- instead of the message's own
    next_attempt_at bigint,
    last_attempt_at bigint,
    by              uuid,
    attempts        integer  NOT NULL DEFAULT 0,
    crashes         integer  NOT NULL DEFAULT 0,
    claims          integer  NOT NULL DEFAULT 0,
    state           smallint NOT NULL DEFAULT 0,
    last_error      text,
    dismissed_by    text,
    dismissed_why   text
) WITH (fillfactor = 80, {hot});

CREATE INDEX IF NOT EXISTS {n}_ended ON {t}_trouble (state, seq) WHERE state > 0;
CREATE INDEX IF NOT EXISTS {n}_old ON {t}_trouble (state, at) WHERE state > 0;
-- Dead letters whose time to live is not over yet.
CREATE INDEX IF NOT EXISTS {n}_lapsing ON {t}_trouble (expires_at) WHERE state = 3 AND expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {t}_answer (
    seq      bigint PRIMARY KEY,
    response text   NOT NULL
);

CREATE TABLE IF NOT EXISTS {t}_failures (
    no      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq     bigint  NOT NULL,
    at      bigint  NOT NULL,
    attempt integer NOT NULL,
    worker  uuid,
    error   text,
    code    text
);

CREATE INDEX IF NOT EXISTS {n}_failures_seq ON {t}_failures (seq, no);

-- Destinations and handlers that are held because they failed.
CREATE TABLE IF NOT EXISTS {t}_holds (
    kind     text   NOT NULL COLLATE "C", -- service or topic
    name     text   NOT NULL COLLATE "C",
    owner    uuid   NOT NULL,
    since    bigint NOT NULL,
    tried_at bigint NOT NULL,
    code     text,
    why      text,
    PRIMARY KEY (kind, name, owner)
);

-- Lanes: messages that name the same lane are handled in the order of their commits. A message without one has no row
-- here. place: 0 waits for its turn, 1 is in the line or in progress, 2 died, 3 died and blocks its lane.
-- No index has the place, so that a change of it writes the row alone.
CREATE TABLE IF NOT EXISTS {t}_lane (
    no         bigint   GENERATED ALWAYS AS IDENTITY, -- in the order of commits
    seq        bigint   NOT NULL,
    expires_at bigint,
    place      smallint NOT NULL DEFAULT 0,
    alone      boolean  NOT NULL DEFAULT false, -- nothing was before it when its turn came, and nothing comes there
    lane       text     NOT NULL COLLATE "C",
    PRIMARY KEY (lane, no)
) WITH (fillfactor = 80, {hot});

CREATE UNIQUE INDEX IF NOT EXISTS {n}_lane_seq ON {t}_lane (seq);
CREATE INDEX IF NOT EXISTS {n}_lane_expiring ON {t}_lane (expires_at) WHERE expires_at IS NOT NULL;

-- Lanes to look at, because something arrived or ended. A note is written and deleted, never changed.
CREATE TABLE IF NOT EXISTS {t}_lane_notes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    past       bigint, -- the number that left, if nothing is before it
    seq        bigint, -- the message that arrived
    expires_at bigint, -- of that message
    lane       text   NOT NULL COLLATE "C"
) WITH ({hot});

-- What an operator set. kind: queue; topic or service, for its messages; lane; lanes, for those of a topic
-- A lane without a rule of its own has that of the topic of its first message. Whoever changes a rule writes a note
-- for its lanes afterwards.
CREATE TABLE IF NOT EXISTS {t}_rules (
    kind       text     NOT NULL COLLATE "C",
    name       text     NOT NULL COLLATE "C",
    places     integer,  -- how many at once
    on_dead    smallint, -- 0 block, 1 skip, 2 newest only
    every      bigint,   -- microseconds from one to the next
    burst      integer,
    paused_at  bigint,
    paused_by  text,
    paused_why text,
    PRIMARY KEY (kind, name)
);

-- When the next message of a place with a rate may start.
CREATE TABLE IF NOT EXISTS {t}_rates (
    kind text   NOT NULL COLLATE "C",
    name text   NOT NULL COLLATE "C",
    tat  bigint NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 80, {hot});

-- Messages in progress that are to stop: under which claim, since when, who asked and why. An ack does not look here:
-- it wins, and the row is swept away. Every other end of the claim dismisses the message.
CREATE TABLE IF NOT EXISTS {t}_stops (
    seq      bigint  NOT NULL,
    claim_no integer NOT NULL,
    at       bigint  NOT NULL,
    who      text    NOT NULL,
    why      text    NOT NULL,
    PRIMARY KEY (seq, claim_no)
);

-- Actions of operators: who, what, how many messages, and why.
CREATE TABLE IF NOT EXISTS {t}_audit (
    act      uuid   NOT NULL,
    what     text   NOT NULL,
    messages bigint NOT NULL,
    at       bigint NOT NULL,
    who      text   NOT NULL,
    why      text,
    chosen   text,
    PRIMARY KEY (act, what)
);

-- Every message with its state, for a message by its number, id or key. An UPDATE of this view moves messages.
-- OFFSET 0 keeps the planner from reading a table as a whole that it takes for empty: it looks up one row for each.
CREATE OR REPLACE VIEW {t}_state AS
SELECT {wide},
    CASE WHEN l.seq IS NOT NULL THEN 0 WHEN h.seq IS NOT NULL THEN 1 WHEN t.state > 0 THEN t.state::integer
         WHEN d.from_seq IS NOT NULL THEN 2 WHEN w.place = 0 THEN 0
         ELSE -1 END AS state, -- -1: it stands nowhere, and doctor reports it
    CASE WHEN l.seq IS NOT NULL THEN l.visible_at WHEN h.seq IS NOT NULL THEN e.until
         WHEN w.place = 0 THEN coalesce(t.visible_at, m.visible_at) END AS visible_at,
    coalesce(h.claim_no, d.no, t.claims, 0) AS claim_no, h.owner AS owner, e.until AS locked_until,
    CASE WHEN h.seq IS NOT NULL THEN e.at WHEN d.from_seq IS NOT NULL THEN d.claimed_at
         ELSE t.last_attempt_at END AS last_attempt_at,
    CASE WHEN d.from_seq IS NOT NULL THEN d.at WHEN t.state IN (2, 3, 4, 7) THEN t.at END AS processed_at,
    CASE WHEN d.from_seq IS NOT NULL THEN d.by WHEN t.state > 0 THEN t.by END AS processed_by,
    a.response
FROM {t} AS m{beside}
    LEFT JOIN LATERAL (SELECT * FROM {t}_line AS x
                       WHERE x.visible_at = coalesce(t.visible_at, m.visible_at) AND x.seq = m.seq OFFSET 0) AS l
        ON true
    LEFT JOIN LATERAL (SELECT * FROM {t}_held AS x WHERE x.seq = m.seq OFFSET 0) AS h ON true
    LEFT JOIN LATERAL (SELECT * FROM {t}_lease AS x WHERE x.no = h.lease OFFSET 0) AS e ON true
    LEFT JOIN LATERAL (SELECT * FROM {t}_done AS r WHERE r.from_seq <= m.seq ORDER BY r.from_seq DESC LIMIT 1) AS d
        ON d.to_seq >= m.seq
    LEFT JOIN LATERAL (SELECT * FROM {t}_lane AS x WHERE x.seq = m.seq AND m.lane IS NOT NULL OFFSET 0) AS w ON true;

-- The same messages, for those in one state.
CREATE OR REPLACE VIEW {t}_by_state AS
SELECT {wide}, 0 AS state, l.visible_at, l.claims AS claim_no, NULL::uuid AS owner, NULL::bigint AS locked_until,
    t.last_attempt_at, NULL::bigint AS processed_at, NULL::uuid AS processed_by, a.response
FROM {t}_line AS l
    CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = l.seq OFFSET 0) AS m{beside}
UNION ALL
SELECT {wide}, 0, coalesce(t.visible_at, m.visible_at), coalesce(t.claims, 0), NULL, NULL, t.last_attempt_at, NULL,
    NULL, a.response
FROM {t}_lane AS w
    CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = w.seq OFFSET 0) AS m{beside}
WHERE w.place = 0
UNION ALL
SELECT {wide}, 1, e.until, h.claim_no, h.owner, e.until, e.at, NULL, NULL, a.response
FROM {t}_lease AS e{under_it}
    CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = h.seq OFFSET 0) AS m{beside}
UNION ALL
SELECT {wide}, 2, NULL, d.no, NULL, NULL, d.claimed_at, d.at, d.by, a.response
FROM {t}_done AS d
    CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq BETWEEN d.from_seq AND d.to_seq OFFSET 0) AS m{beside}
UNION ALL
SELECT {wide_ended}, t.state, NULL, t.claims, NULL, NULL, t.last_attempt_at,
    CASE WHEN t.state IN (2, 3, 4, 7) THEN t.at END, t.by, a.response
FROM {t}_trouble AS t
    CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = t.seq OFFSET 0) AS m{beside_ended}
WHERE t.state > 0;

-- Messages that do not stand in exactly one place, runs that overlap, and places without a message. It is always empty.
CREATE OR REPLACE VIEW {t}_misplaced AS
SELECT * FROM (
    SELECT m.seq, (l.seq IS NOT NULL)::integer + (h.seq IS NOT NULL)::integer + (d.from_seq IS NOT NULL)::integer
        + coalesce(t.state > 0, false)::integer + coalesce(w.place = 0, false)::integer AS places
    FROM {t} AS m
        LEFT JOIN {t}_trouble AS t ON t.seq = m.seq
        LEFT JOIN {t}_line AS l ON l.visible_at = coalesce(t.visible_at, m.visible_at) AND l.seq = m.seq
        LEFT JOIN {t}_held AS h ON h.seq = m.seq
        LEFT JOIN LATERAL (SELECT * FROM {t}_done AS r WHERE r.from_seq <= m.seq ORDER BY r.from_seq DESC LIMIT 1) AS d
            ON d.to_seq >= m.seq
        LEFT JOIN {t}_lane AS w ON w.seq = m.seq) AS found
WHERE places <> 1
UNION ALL
SELECT d.from_seq, 2 FROM {t}_done AS d
WHERE EXISTS (SELECT 1 FROM {t}_done AS o WHERE o.from_seq > d.from_seq AND o.from_seq <= d.to_seq)
UNION ALL
SELECT d.from_seq, 0 FROM {t}_done AS d
WHERE NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq BETWEEN d.from_seq AND d.to_seq)
UNION ALL
SELECT l.seq, 0 FROM {t}_line AS l
WHERE NOT EXISTS (SELECT 1 FROM {t} AS m LEFT JOIN {t}_trouble AS t ON t.seq = m.seq
                  WHERE m.seq = l.seq AND coalesce(t.visible_at, m.visible_at) = l.visible_at)
UNION ALL
SELECT h.seq, 0 FROM {t}_held AS h
WHERE NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = h.seq)
   OR NOT EXISTS (SELECT 1 FROM {t}_lease AS e
                  WHERE e.no = h.lease AND h.seq BETWEEN e.first_seq AND e.last_seq)
UNION ALL
SELECT t.seq, 0 FROM {t}_trouble AS t WHERE NOT EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = t.seq)
UNION ALL
-- In its lane a message stands where it stands elsewhere.
SELECT w.seq, 0 FROM {t}_lane AS w
    LEFT JOIN {t} AS m ON m.seq = w.seq AND m.lane = w.lane
    LEFT JOIN {t}_trouble AS t ON t.seq = w.seq
WHERE m.seq IS NULL
   OR w.place = 1
      AND NOT EXISTS (SELECT 1 FROM {t}_held AS h WHERE h.seq = w.seq AND h.laned)
      AND NOT EXISTS (SELECT 1 FROM {t}_line AS l
                      WHERE l.visible_at = coalesce(t.visible_at, m.visible_at) AND l.seq = w.seq AND l.laned)
   OR w.place > 1 AND t.state IS DISTINCT FROM 3
UNION ALL
SELECT s.seq, 0 FROM (SELECT seq FROM {t}_line WHERE laned UNION ALL SELECT seq FROM {t}_held WHERE laned) AS s
WHERE NOT EXISTS (SELECT 1 FROM {t}_lane AS w WHERE w.seq = s.seq AND w.place = 1);

-- A new message waits, or is only known. Whoever may insert messages needs no right on the other tables.
CREATE OR REPLACE FUNCTION {t}_entered() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $entered$
BEGIN
    INSERT INTO {t}_line (visible_at, seq, place, expires_at, bytes)
    SELECT visible_at, seq, {place}, expires_at, octet_length(payload) FROM entered WHERE born = 0 AND lane IS NULL;
    IF EXISTS (SELECT 1 FROM entered WHERE born = 5 OR lane IS NOT NULL) THEN
        INSERT INTO {t}_trouble (seq, state, at, expires_at)
        SELECT seq, 5, created_at, expires_at FROM entered WHERE born = 5;
        -- In the order of the locks that the commit takes, so that two of these statements do not block each other.
        INSERT INTO {t}_lane_notes (seq, expires_at, lane)
        SELECT seq, expires_at, lane FROM entered WHERE born = 0 AND lane IS NOT NULL
        ORDER BY hashtext(lane) & 1023, seq;
    END IF;
    RETURN NULL;
END
$entered$;

REVOKE EXECUTE ON FUNCTION {t}_entered() FROM PUBLIC; -- for this trigger alone
DROP TRIGGER IF EXISTS {n}_entered ON {t};
CREATE TRIGGER {n}_entered AFTER INSERT ON {t} REFERENCING NEW TABLE AS entered FOR EACH STATEMENT
EXECUTE FUNCTION {t}_entered();

-- A message enters its lane when its transaction commits. A number that is drawn under the lock is a place in the order
-- of commits: the lock is held until the commit is over. There are few locks, so that a transaction can use many lanes.
CREATE OR REPLACE FUNCTION {t}_laned() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path {path} AS $laned$
BEGIN
    PERFORM pg_advisory_xact_lock(TG_RELID::integer, hashtext(NEW.lane) & 1023);
    INSERT INTO {t}_lane (seq, expires_at, lane) VALUES (NEW.seq, NEW.expires_at, NEW.lane);
    RETURN NULL;
END
$laned$;

REVOKE EXECUTE ON FUNCTION {t}_laned() FROM PUBLIC;
DROP TRIGGER IF EXISTS {n}_laned ON {t}_lane_notes;
CREATE CONSTRAINT TRIGGER {n}_laned AFTER INSERT ON {t}_lane_notes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.seq IS NOT NULL) EXECUTE FUNCTION {t}_laned();

-- A message with a lane is no longer in progress. If it is done, it leaves its lane, and somebody looks who is next.
-- This is no part of the statement that acknowledges: there it would cost something for messages without a lane.
CREATE OR REPLACE FUNCTION {t}_settled() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $settled$
BEGIN
    WITH left_lane AS (
        DELETE FROM {t}_lane WHERE seq = OLD.seq AND EXISTS (
            SELECT 1 FROM (SELECT r.to_seq FROM {t}_done AS r WHERE r.from_seq <= OLD.seq
                           ORDER BY r.from_seq DESC LIMIT 1) AS d WHERE d.to_seq >= OLD.seq)
        RETURNING lane, no, alone
    ) INSERT INTO {t}_lane_notes (past, lane) SELECT CASE WHEN alone THEN no END, lane FROM left_lane;
    RETURN NULL;
END
$settled$;

DROP TRIGGER IF EXISTS {n}_settled ON {t}_held;
CREATE TRIGGER {n}_settled AFTER DELETE ON {t}_held FOR EACH ROW WHEN (OLD.laned) EXECUTE FUNCTION {t}_settled();

-- Messages are deleted, and what belongs to them. A run of numbers keeps those that are left.
CREATE OR REPLACE FUNCTION {t}_deleted() RETURNS trigger LANGUAGE plpgsql AS $deleted$
DECLARE
    gone bigint[] := ARRAY(SELECT seq FROM deleted);
    runs bigint[];
BEGIN
    -- In the direction in which messages move, so that none gets past.
    IF EXISTS (SELECT 1 FROM deleted WHERE lane IS NOT NULL) THEN
        -- Those that were written in the same transaction enter their lanes first.
        SET CONSTRAINTS {t}_laned IMMEDIATE;
        SET CONSTRAINTS {t}_laned DEFERRED;
        WITH left_lane AS (
            DELETE FROM {t}_lane WHERE seq = ANY (gone) RETURNING lane, no, alone
        ) INSERT INTO {t}_lane_notes (past, lane) SELECT CASE WHEN alone THEN no END, lane FROM left_lane;
    END IF;
    DELETE FROM {t}_line AS l USING deleted AS g LEFT JOIN {t}_trouble AS t ON t.seq = g.seq
    WHERE l.visible_at = coalesce(t.visible_at, g.visible_at) AND l.seq = g.seq;
    DELETE FROM {t}_held WHERE seq = ANY (gone);
    LOOP
        runs := ARRAY(
            SELECT r.from_seq FROM unnest(gone) AS g (seq) CROSS JOIN LATERAL (
                SELECT o.from_seq, o.to_seq FROM {t}_done AS o WHERE o.from_seq <= g.seq
                ORDER BY o.from_seq DESC LIMIT 1) AS r
            WHERE r.to_seq >= g.seq);
        EXIT WHEN runs = '{}';
        WITH cut AS (
            DELETE FROM {t}_done WHERE from_seq = ANY (runs) RETURNING *
        ), ends AS (
            SELECT c.*, g.seq FROM cut AS c JOIN unnest(gone) AS g (seq) ON g.seq BETWEEN c.from_seq AND c.to_seq
            UNION ALL SELECT c.*, c.to_seq + 1 FROM cut AS c
        ), pieces AS (
            SELECT lag(seq, 1, from_seq - 1) OVER (PARTITION BY from_seq ORDER BY seq) + 1 AS first, seq - 1 AS last,
                ends.*
            FROM ends
        )
        INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at)
        SELECT first, last, no, at, by, claimed_at FROM pieces WHERE first <= last;
    END LOOP;
    DELETE FROM {t}_trouble WHERE seq = ANY (gone);
    DELETE FROM {t}_answer WHERE seq = ANY (gone);
    DELETE FROM {t}_failures WHERE seq = ANY (gone);
    RETURN NULL;
END
$deleted$;

DROP TRIGGER IF EXISTS {n}_deleted ON {t};
CREATE TRIGGER {n}_deleted AFTER DELETE ON {t} REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
EXECUTE FUNCTION {t}_deleted();

-- Messages of a lane that have their turn and that nobody has claimed wait again, and a look decides anew.
CREATE OR REPLACE FUNCTION {t}_lane_heads_back(its_lane text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $back$
BEGIN
    WITH heads AS MATERIALIZED (
        SELECT l.at FROM {t}_lane AS w
            CROSS JOIN LATERAL (SELECT x.visible_at FROM {t} AS x WHERE x.seq = w.seq OFFSET 0) AS m
            LEFT JOIN LATERAL (SELECT x.visible_at FROM {t}_trouble AS x WHERE x.seq = w.seq OFFSET 0) AS t ON true
            CROSS JOIN LATERAL (
                SELECT x.ctid AS at FROM {t}_line AS x
                WHERE x.visible_at = coalesce(t.visible_at, m.visible_at) AND x.seq = w.seq
                FOR UPDATE SKIP LOCKED) AS l
        WHERE w.lane = its_lane AND w.place = 1
    ), back AS (
        DELETE FROM {t}_line WHERE ctid = ANY (ARRAY(SELECT at FROM heads)) RETURNING seq
    ) UPDATE {t}_lane SET place = 0 WHERE seq IN (SELECT seq FROM back);
    INSERT INTO {t}_lane_notes (lane) VALUES (its_lane);
END
$back$;

-- A message moves: it leaves where it stands and is written where it goes. If it is no longer where it was found,
-- nothing happens, and no row is counted.
CREATE OR REPLACE FUNCTION {t}_moved() RETURNS trigger LANGUAGE plpgsql AS $moved$
DECLARE
    run {t}_done%ROWTYPE;
    lease_no bigint;
    left_lease bigint;
    its_lane text;
    lane_place smallint; -- null: it has no row there
    -- It stays where it is, and something else changes.
    stays boolean := OLD.state = NEW.state AND OLD.state IN (1, 2) AND OLD.claim_no = NEW.claim_no
        AND OLD.owner IS NOT DISTINCT FROM NEW.owner;
    left_it boolean;
BEGIN
    IF stays AND OLD.state = 1 THEN
        SELECT lease INTO left_lease FROM {t}_held
        WHERE seq = OLD.seq AND claim_no = OLD.claim_no AND owner IS NOT DISTINCT FROM OLD.owner FOR UPDATE;
        left_it := FOUND;
    ELSIF stays THEN
        -- One after the other, and not while it is deleted.
        PERFORM 1 FROM {t} WHERE seq = OLD.seq FOR NO KEY UPDATE;
        left_it := EXISTS (SELECT 1 FROM {t}_state
                           WHERE seq = OLD.seq AND state = 2 AND response IS NOT DISTINCT FROM OLD.response);
    ELSIF OLD.state = 0 THEN
        DELETE FROM {t}_line WHERE visible_at = OLD.visible_at AND seq = OLD.seq AND claims = OLD.claim_no;
        left_it := FOUND;
        IF NOT left_it THEN
            -- It may wait in its lane. Its row is locked first: what happened to it before is read as it is then.
            PERFORM 1 FROM {t}_lane WHERE seq = OLD.seq AND place = 0 FOR UPDATE;
            left_it := FOUND AND coalesce((SELECT claims FROM {t}_trouble WHERE seq = OLD.seq), 0) = OLD.claim_no;
        END IF;
    ELSIF OLD.state = 1 THEN
        DELETE FROM {t}_held
        WHERE seq = OLD.seq AND claim_no = OLD.claim_no AND owner IS NOT DISTINCT FROM OLD.owner
        RETURNING lease INTO left_lease;
        left_it := FOUND;
        DELETE FROM {t}_lease WHERE no = left_lease AND n = 1;
    ELSE
        PERFORM 1 FROM {t}_trouble
        WHERE seq = OLD.seq AND state = OLD.state AND attempts = OLD.attempts AND claims = OLD.claim_no FOR UPDATE;
        left_it := FOUND;
        WHILE OLD.state = 2 AND NOT left_it LOOP
            SELECT * INTO run FROM {t}_done WHERE from_seq <= OLD.seq ORDER BY from_seq DESC LIMIT 1;
            EXIT WHEN NOT FOUND OR run.to_seq < OLD.seq;
            DELETE FROM {t}_done WHERE from_seq = run.from_seq AND to_seq = run.to_seq;
            left_it := FOUND;
            IF left_it THEN
                INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at)
                SELECT p.first, p.last, run.no, run.at, run."by", run.claimed_at
                FROM (VALUES (run.from_seq, OLD.seq - 1), (OLD.seq + 1, run.to_seq)) AS p (first, last)
                WHERE p.first <= p.last;
            END IF;
        END LOOP;
    END IF;
    IF NOT left_it THEN
        RETURN NULL;
    END IF;
    -- It is not being deleted.
    SELECT lane INTO its_lane FROM {t} WHERE seq = OLD.seq FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF its_lane IS NOT NULL AND NOT stays THEN
        IF NEW.state < 2 THEN
            -- One that died and was not passed goes on where it was. Its turn is decided by a look. So is that of one
            -- that comes back from work, if it is not the first of its lane, or if the lane is paused.
            UPDATE {t}_lane AS w SET expires_at = NEW.expires_at,
                place = CASE WHEN NEW.state = 1 THEN 1 WHEN w.place > 1 THEN 0
                    WHEN OLD.state = 1 AND (
                        EXISTS (SELECT 1 FROM {t}_lane AS o WHERE o.lane = w.lane AND o.no < w.no)
                        OR EXISTS (SELECT 1 FROM {t}_rules AS r WHERE r.paused_at IS NOT NULL
                                   AND (r.kind = 'lane' AND r.name = w.lane OR r.kind = 'lanes' AND r.name = OLD.topic)))
                    THEN 0 ELSE w.place END
            WHERE seq = OLD.seq RETURNING place INTO lane_place;
            IF NEW.state = 0 AND (OLD.state > 1 OR lane_place IS NULL OR OLD.state = 1 AND lane_place = 0) THEN
                -- One that has left its lane enters it again, as the last.
                INSERT INTO {t}_lane_notes (seq, expires_at, lane)
                VALUES (CASE WHEN lane_place IS NULL THEN OLD.seq END, NEW.expires_at, its_lane);
                lane_place := coalesce(lane_place, 0);
            END IF;
        ELSIF NEW.state = 3 AND OLD.state = 1 AND NEW.claim_no = OLD.claim_no THEN
            -- Its last attempt failed. What is dead by hand leaves its lane.
            WITH died AS (
                UPDATE {t}_lane SET place = 2 WHERE seq = OLD.seq RETURNING lane, no, alone
            ) INSERT INTO {t}_lane_notes (past, lane) SELECT CASE WHEN alone THEN no END, lane FROM died;
            IF EXISTS (SELECT 1 FROM {t}_rules WHERE kind IN ('lane', 'lanes') AND places > 1) THEN
                -- Others may have their turn as well, and must not pass it if it blocks.
                PERFORM {t}_lane_heads_back(its_lane);
            END IF;
        -- One that is dead already may get another content. That changes nothing in its lane.
        ELSIF NEW.state <> 3 OR OLD.state <> 3 OR NEW.claim_no <> OLD.claim_no THEN
            WITH left_lane AS (
                DELETE FROM {t}_lane WHERE seq = OLD.seq RETURNING lane, no, alone
            ) INSERT INTO {t}_lane_notes (past, lane) SELECT CASE WHEN alone THEN no END, lane FROM left_lane;
        END IF;
    END IF;
    IF OLD.due_at IS DISTINCT FROM NEW.due_at OR OLD.created_at <> NEW.created_at THEN
        UPDATE {t} SET due_at = NEW.due_at, created_at = NEW.created_at WHERE seq = OLD.seq;
    END IF;
    IF NOT stays THEN
        INSERT INTO {t}_trouble AS t (seq, state, at, by, attempts, crashes, claims, visible_at, next_attempt_at,
            last_attempt_at, expires_at, last_error, dismissed_by, dismissed_why)
        VALUES (OLD.seq, CASE WHEN NEW.state > 1 THEN NEW.state ELSE 0 END, NEW.processed_at, NEW.processed_by,
            NEW.attempts, NEW.crashes, NEW.claim_no, CASE WHEN NEW.state = 0 THEN NEW.visible_at END,
            NEW.next_attempt_at, NEW.last_attempt_at, NEW.expires_at, NEW.last_error, NEW.dismissed_by,
            NEW.dismissed_why)
        ON CONFLICT (seq) DO UPDATE SET state = excluded.state,
            at = CASE WHEN excluded.state IN (5, 6) THEN t.at ELSE excluded.at END,
            by = excluded.by, attempts = excluded.attempts, crashes = excluded.crashes, claims = excluded.claims,
            visible_at = excluded.visible_at, next_attempt_at = excluded.next_attempt_at,
            last_attempt_at = excluded.last_attempt_at, expires_at = excluded.expires_at,
            last_error = excluded.last_error, dismissed_by = excluded.dismissed_by,
            dismissed_why = excluded.dismissed_why;
    END IF;
    IF NEW.state = 0 THEN
        INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes, laned)
        SELECT NEW.visible_at, seq, {place}, NEW.expires_at, least(NEW.crashes, 32767), NEW.claim_no,
            octet_length(payload), lane_place IS NOT NULL
        FROM {t} WHERE seq = OLD.seq AND lane_place IS DISTINCT FROM 0;
    -- An answer changes nothing else: the lease may have been renewed since it was read.
    ELSIF NEW.state = 1 AND (NOT stays OR NEW.response IS NOT DISTINCT FROM OLD.response) THEN
        INSERT INTO {t}_lease (at, until, first_seq, last_seq, n)
        VALUES (NEW.last_attempt_at, NEW.locked_until, OLD.seq, OLD.seq, 1) RETURNING no INTO lease_no;
        UPDATE {t}_held SET lease = lease_no WHERE seq = OLD.seq AND stays;
        DELETE FROM {t}_lease AS e WHERE e.no = left_lease AND stays AND NOT EXISTS (
            SELECT 1 FROM {t}_held AS h WHERE h.seq BETWEEN e.first_seq AND e.last_seq AND h.lease = e.no);
        INSERT INTO {t}_held (seq, lease, owner, claim_no, laned)
        SELECT OLD.seq, lease_no, NEW.owner, NEW.claim_no, lane_place IS NOT NULL WHERE NOT stays;
    END IF;
    -- A settle keeps an answer that arrived while it was decided.
    IF NEW.response IS DISTINCT FROM OLD.response AND (NEW.response IS NOT NULL OR OLD.state <> 1) THEN
        DELETE FROM {t}_answer WHERE seq = OLD.seq;
        INSERT INTO {t}_answer (seq, response) SELECT OLD.seq, NEW.response WHERE NEW.response IS NOT NULL;
    END IF;
    RETURN NEW;
END
$moved$;

DROP TRIGGER IF EXISTS {n}_moved ON {t}_state;
CREATE TRIGGER {n}_moved INSTEAD OF UPDATE ON {t}_state FOR EACH ROW EXECUTE FUNCTION {t}_moved();

