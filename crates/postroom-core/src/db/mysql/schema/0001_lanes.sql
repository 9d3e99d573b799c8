-- Lanes: who enters one, who leaves one, and who lets the next ones have their turn.

-- A message enters its lane as the last. The lock is held until the commit: who enters a lane later commits later. The
-- triggers of new messages do the same.
CREATE PROCEDURE IF NOT EXISTS {t}_lane_enter(
    IN p_lane VARBINARY(1020), IN p_seq BIGINT, IN p_at BIGINT, IN p_expires_at BIGINT, IN p_bytes BIGINT,
    IN p_route VARCHAR(256) CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_slot BIGINT DEFAULT -1 - CAST(CRC32(p_lane) & 1023 AS SIGNED);
    DECLARE v_no BIGINT;
    UPDATE {t}_lane SET at = at + 1 WHERE lane = '' AND no = v_slot;
    SELECT MAX(at) INTO v_no FROM {t}_lane WHERE lane = '' AND no = v_slot;
    INSERT INTO {t}_lane (lane, no, seq, at, expires_at, bytes, route)
    VALUES (p_lane, v_no, p_seq, p_at, p_expires_at, p_bytes, p_route);
END;

-- A message that left its lane enters it again.
CREATE PROCEDURE IF NOT EXISTS {t}_lane_again(
    IN p_seq BIGINT, IN p_lane VARBINARY(1020), IN p_at BIGINT, IN p_expires_at BIGINT
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_bytes BIGINT;
    DECLARE v_route VARCHAR(256) CHARACTER SET utf8mb4;
    SELECT OCTET_LENGTH(payload), {place} INTO v_bytes, v_route FROM {t} WHERE seq = p_seq;
    CALL {t}_lane_enter(p_lane, p_seq, p_at, p_expires_at, v_bytes, v_route);
END;

-- A message leaves its lane, and a note tells of it. Reading locks the row: the snapshot of the caller's transaction may
-- be older than it.
CREATE PROCEDURE IF NOT EXISTS {t}_lane_leave(IN p_seq BIGINT) SQL SECURITY INVOKER
BEGIN
    DECLARE v_lane VARBINARY(1020);
    DECLARE v_no, v_past BIGINT;
    SELECT MAX(lane), MAX(no), MAX(past) INTO v_lane, v_no, v_past FROM {t}_lane WHERE seq = p_seq FOR UPDATE;
    IF v_lane IS NOT NULL THEN
        DELETE FROM {t}_lane WHERE lane = v_lane AND no = v_no;
        INSERT INTO {t}_lane_notes (lane, past) VALUES (v_lane, v_past);
    END IF;
END;

-- Messages of a lane that have their turn and that nobody has claimed wait again, and a look decides anew. One that
-- somebody else has locked is being claimed or changed.
CREATE PROCEDURE IF NOT EXISTS {t}_lane_heads_back(IN p_lane VARBINARY(1020)) SQL SECURITY INVOKER
BEGIN
    DECLARE v_no, v_last, v_seq, v_at, v_expires_at, v_stood BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    each_head: LOOP
        SELECT MIN(no) INTO v_no FROM {t}_lane WHERE lane = p_lane AND no > COALESCE(v_last, 0) AND place = 1;
        IF v_no IS NULL THEN
            LEAVE each_head;
        END IF;
        SET v_last = v_no, v_seq = NULL, v_stood = NULL;
        SELECT seq INTO v_seq FROM {t}_lane
        WHERE lane = p_lane AND no = v_no AND place = 1 FOR UPDATE SKIP LOCKED;
        SELECT MAX(COALESCE(t.visible_at, m.visible_at)) INTO v_at
        FROM {t} AS m LEFT JOIN {t}_trouble AS t ON t.seq = m.seq WHERE m.seq = v_seq;
        SELECT seq, expires_at INTO v_stood, v_expires_at FROM {t}_line
        WHERE visible_at = v_at AND seq = v_seq FOR UPDATE SKIP LOCKED;
        IF v_stood IS NOT NULL THEN
            DELETE FROM {t}_line WHERE visible_at = v_at AND seq = v_seq;
            UPDATE {t}_lane SET place = 0, at = v_at, expires_at = v_expires_at WHERE lane = p_lane AND no = v_no;
        END IF;
    END LOOP;
    INSERT INTO {t}_lane_notes (lane) VALUES (p_lane);
END;

-- The same for each lane whose first message has that topic.
CREATE PROCEDURE IF NOT EXISTS {t}_lanes_ruled(IN p_topic VARBINARY(1020)) SQL SECURITY INVOKER
BEGIN
    DECLARE v_lane VARBINARY(1020);
    DECLARE v_is_over BOOLEAN DEFAULT FALSE;
    DECLARE v_lanes CURSOR FOR
        SELECT w.lane FROM {t}_lane AS w STRAIGHT_JOIN {t} AS m ON m.seq = w.seq
        WHERE CAST(m.topic AS BINARY) = p_topic
          AND NOT EXISTS (SELECT 1 FROM {t}_lane AS o WHERE o.lane = w.lane AND o.no < w.no);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
    OPEN v_lanes;
    each_lane: LOOP
        FETCH v_lanes INTO v_lane;
        IF v_is_over THEN
            LEAVE each_lane;
        END IF;
        CALL {t}_lane_heads_back(v_lane);
    END LOOP;
    CLOSE v_lanes;
END;

-- Looks at lanes where something happened, and lets the first messages of each have their turn: as many as the lane's
-- rule says. It takes up to p_limit arrivals, acks and notes each. Answers with how many it took, how many messages it
-- put into the line, in how many lanes something was locked by others, whether there may be more to take, the earliest
-- time of what it put into the line, and how many messages it dropped because a newer one exists.
--
-- It is a transaction of its own, in READ COMMITTED. In REPEATABLE READ it would find notes that are newer than the
-- lanes that it reads, and delete them: nobody would look again. In a transaction of the caller it fails.
--
-- A lane is read in its order, from a number below which nothing is left. What is to be changed is locked, if nobody else
-- has it, and asked again. If it cannot be had, the look stops there: what comes later must not pass it. Then it leaves
-- a note for the next look.
CREATE PROCEDURE IF NOT EXISTS {t}_lane_look(IN p_now BIGINT, IN p_limit BIGINT) SQL SECURITY INVOKER
looking: BEGIN
    DECLARE v_old LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_lane VARBINARY(1020);
    DECLARE v_kind, v_n, v_past, v_came, v_no, v_next, v_got, v_seq, v_at, v_expires_at, v_bytes, v_floor BIGINT;
    DECLARE v_every, v_claims, v_tat, v_stood, v_newest, v_first BIGINT;
    DECLARE v_acks, v_news, v_notes, v_promoted, v_missed, v_dropped, v_live, v_place, v_crashes INT DEFAULT 0;
    DECLARE v_places, v_on_dead, v_burst, v_paused INT;
    DECLARE v_route VARCHAR(256) CHARACTER SET utf8mb4;
    DECLARE v_topic VARBINARY(1020);
    DECLARE v_has_work, v_has_rules, v_is_over, v_is_missed BOOLEAN DEFAULT FALSE;
    -- Opening it takes and locks all of them, before any lane is read. It has only numbers: a temporary table with names
    -- of lanes would go to disk.
    DECLARE v_work CURSOR FOR
        SELECT 1, acks.seq FROM (
            SELECT seq FROM {t}_taken FORCE INDEX ({n}_taken_by) WHERE done_at < 0
            ORDER BY done_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS acks
        UNION ALL
        SELECT 2, news.seq FROM (
            SELECT seq FROM {t}_lane FORCE INDEX ({n}_lane_news) WHERE news = 1
            ORDER BY seq LIMIT p_limit FOR UPDATE SKIP LOCKED) AS news
        UNION ALL
        SELECT 3, notes.id FROM (
            SELECT id FROM {t}_lane_notes ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED) AS notes;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT {lane_work} INTO v_has_work;
    IF NOT v_has_work THEN
        ROLLBACK;
        SELECT 0, 0, 0, 0, NULL, 0;
        LEAVE looking;
    END IF;
    SELECT EXISTS (SELECT 1 FROM {t}_rules WHERE kind IN ('lane', 'lanes')) INTO v_has_rules;
    OPEN v_work;
    each_work: LOOP
        SET v_is_over = FALSE;
        FETCH v_work INTO v_kind, v_n;
        IF v_is_over THEN
            LEAVE each_work;
        END IF;
        SET v_lane = NULL, v_past = 0, v_came = NULL;
        IF v_kind = 1 THEN
            -- As long as the row of the ack is locked, nobody changes its message's row in the lane.
            SET v_acks = v_acks + 1;
            SELECT lane, no, past INTO v_lane, v_no, v_past FROM {t}_lane WHERE seq = v_n;
            DELETE FROM {t}_lane WHERE lane = v_lane AND no = v_no;
            UPDATE {t}_taken SET done_at = -done_at, laned = 0 WHERE seq = v_n;
        ELSEIF v_kind = 2 THEN
            SET v_news = v_news + 1;
            SELECT lane, no INTO v_lane, v_came FROM {t}_lane WHERE seq = v_n;
            UPDATE {t}_lane SET news = 0 WHERE lane = v_lane AND no = v_came;
        ELSE
            SET v_notes = v_notes + 1;
            SELECT lane, past INTO v_lane, v_past FROM {t}_lane_notes WHERE id = v_n;
            DELETE FROM {t}_lane_notes WHERE id = v_n;
        END IF;
        IF v_lane IS NULL THEN
            -- Its row in the lane is gone. Others report that.
            ITERATE each_work;
        END IF;
        SET v_places = 1, v_on_dead = 0, v_paused = 0, v_every = NULL, v_burst = 1, v_is_missed = FALSE;
        IF v_has_rules THEN
            SET v_topic = NULL;
            SELECT CAST(m.topic AS BINARY) INTO v_topic FROM {t}_lane AS w STRAIGHT_JOIN {t} AS m ON m.seq = w.seq
            WHERE w.lane = v_lane AND w.no >= COALESCE(v_past, 0) ORDER BY w.no LIMIT 1;
            SELECT COALESCE(MAX(IF(kind = 'lane', places, NULL)), MAX(IF(kind = 'lanes', places, NULL)), 1),
                   COALESCE(MAX(IF(kind = 'lane', on_dead, NULL)), MAX(IF(kind = 'lanes', on_dead, NULL)), 0),
                   COALESCE(MAX(IF(kind = 'lane', every, NULL)), MAX(IF(kind = 'lanes', every, NULL))),
                   COALESCE(MAX(IF(kind = 'lane', burst, NULL)), MAX(IF(kind = 'lanes', burst, NULL)), 1),
                   COALESCE(MAX(paused_at IS NOT NULL), 0)
            INTO v_places, v_on_dead, v_every, v_burst, v_paused FROM {t}_rules
            WHERE kind = 'lane' AND name = v_lane OR kind = 'lanes' AND name = v_topic;
        END IF;
        SET v_live = 0, v_floor = NULL, v_next = COALESCE(v_past, 0);
        IF v_came IS NOT NULL AND v_places > 0 THEN
            -- Something arrived, and that is all. Behind as many as may go at once it waits for a note of one of these.
            -- If another look is about to take one of them away, that look may not have seen what arrived.
            SELECT COUNT(*), MIN(before_it.no) INTO v_live, v_floor FROM (
                SELECT no FROM {t}_lane WHERE lane = v_lane AND no < v_came
                ORDER BY no DESC LIMIT v_places) AS before_it;
            IF v_live < v_places THEN
                SET v_live = 0;
            ELSE
                SELECT COUNT(*) INTO v_got FROM (
                    SELECT no FROM {t}_lane WHERE lane = v_lane AND no >= v_floor AND no < v_came
                    FOR UPDATE SKIP LOCKED) AS still_there;
                SET v_is_missed = v_got < v_live;
            END IF;
            SET v_floor = NULL;
        END IF;
        each_row: WHILE v_live < v_places AND NOT v_paused DO
            SET v_no = NULL;
            SELECT no, place INTO v_no, v_place FROM {t}_lane
            WHERE lane = v_lane AND no >= v_next ORDER BY no LIMIT 1;
            IF v_no IS NULL THEN
                LEAVE each_row;
            END IF;
            SET v_next = v_no + 1, v_got = NULL;
            IF v_place = 0 THEN
                SELECT no, seq, at, expires_at, bytes, route
                INTO v_got, v_seq, v_at, v_expires_at, v_bytes, v_route FROM {t}_lane
                WHERE lane = v_lane AND no = v_no AND place = 0 FOR UPDATE SKIP LOCKED;
                IF v_got IS NULL THEN
                    SET v_is_missed = TRUE;
                    LEAVE each_row;
                END IF;
                SET v_floor = COALESCE(v_floor, v_no), v_stood = v_at, v_crashes = 0, v_claims = 0;
                IF v_every IS NOT NULL THEN
                    INSERT INTO {t}_rates (kind, name, tat) VALUES ('lane', v_lane, p_now + v_every)
                    ON DUPLICATE KEY UPDATE tat = GREATEST(tat, p_now) + v_every;
                    SELECT tat INTO v_tat FROM {t}_rates WHERE kind = 'lane' AND name = v_lane;
                    SET v_tat = v_tat - v_every * v_burst;
                    SET v_at = IF(v_tat > p_now, GREATEST(v_at, v_tat), v_at);
                END IF;
                IF v_at <> v_stood THEN
                    -- Where a message stands in the line is found by this.
                    INSERT INTO {t}_trouble (seq, visible_at, expires_at) VALUES (v_seq, v_at, v_expires_at)
                    ON DUPLICATE KEY UPDATE visible_at = VALUES(visible_at);
                END IF;
                SELECT crashes, claims INTO v_crashes, v_claims FROM {t}_trouble WHERE seq = v_seq;
                UPDATE {t}_lane SET place = 1, news = 0, past = v_floor, expires_at = NULL
                WHERE lane = v_lane AND no = v_no;
                INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes, laned)
                VALUES (v_at, v_seq, v_route, v_expires_at, v_crashes, v_claims, v_bytes, 1);
                SET v_live = v_live + 1, v_promoted = v_promoted + 1, v_first = LEAST(COALESCE(v_first, v_at), v_at);
            ELSEIF v_place = 1 THEN
                SELECT no INTO v_got FROM {t}_lane
                WHERE lane = v_lane AND no = v_no AND place = 1 FOR UPDATE SKIP LOCKED;
                IF v_got IS NULL THEN
                    SET v_is_missed = TRUE;
                    LEAVE each_row;
                END IF;
                SET v_live = v_live + 1, v_floor = COALESCE(v_floor, v_no);
            ELSEIF v_on_dead = 0 THEN
                -- Nobody passes it.
                IF v_place = 2 THEN
                    SELECT no INTO v_got FROM {t}_lane
                    WHERE lane = v_lane AND no = v_no AND place = 2 FOR UPDATE SKIP LOCKED;
                    UPDATE {t}_lane SET place = 3 WHERE lane = v_lane AND no = v_got;
                    SET v_is_missed = v_got IS NULL;
                END IF;
                LEAVE each_row;
            ELSE
                SELECT no INTO v_got FROM {t}_lane
                WHERE lane = v_lane AND no = v_no AND place > 1 FOR UPDATE SKIP LOCKED;
                IF v_got IS NOT NULL AND v_on_dead = 2 THEN
                    -- All that wait but the newest are dropped. As long as one of them is left, the dead one stays: it
                    -- says that they are to be dropped.
                    SELECT MAX(newest.no) INTO v_newest FROM (
                        SELECT no FROM {t}_lane WHERE lane = v_lane AND place = 0 ORDER BY no DESC LIMIT 1) AS newest;
                    SET SESSION group_concat_max_len = 16777216;
                    SELECT JSON_ARRAYAGG(old.seq), COUNT(*) INTO v_old, v_stood FROM (
                        SELECT m.seq FROM {t}_lane AS w FORCE INDEX (PRIMARY)
                            STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = w.seq
                        WHERE w.lane = v_lane AND w.no < v_newest AND w.place = 0
                        ORDER BY w.no LIMIT 1000 FOR UPDATE SKIP LOCKED) AS old;
                    IF v_stood > 0 THEN
                        INSERT INTO {t}_trouble (seq, state, at, expires_at, dismissed_by, dismissed_why)
                        SELECT w.seq, 7, p_now, w.expires_at, 'postroom', 'superseded in its lane'
                        FROM JSON_TABLE(v_old, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS a
                            STRAIGHT_JOIN {t}_lane AS w FORCE INDEX ({n}_lane_seq) ON w.seq = a.seq
                        ON DUPLICATE KEY UPDATE state = 7, at = p_now, visible_at = NULL, next_attempt_at = NULL,
                            dismissed_by = 'postroom', dismissed_why = 'superseded in its lane';
                        DELETE w FROM JSON_TABLE(v_old, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS a
                            STRAIGHT_JOIN {t}_lane AS w FORCE INDEX ({n}_lane_seq) ON w.seq = a.seq;
                        SET v_dropped = v_dropped + v_stood;
                    END IF;
                    SELECT MIN(no) INTO v_stood FROM {t}_lane WHERE lane = v_lane AND place = 0 AND no < v_newest;
                    SET v_got = IF(v_stood IS NULL, v_got, NULL);
                END IF;
                IF v_got IS NULL THEN
                    SET v_is_missed = TRUE;
                    LEAVE each_row;
                END IF;
                DELETE FROM {t}_lane WHERE lane = v_lane AND no = v_no;
            END IF;
        END WHILE;
        IF v_is_missed THEN
            INSERT INTO {t}_lane_notes (lane, past) VALUES (v_lane, v_past);
            SET v_missed = v_missed + 1;
        END IF;
    END LOOP;
    CLOSE v_work;
    COMMIT;
    SELECT v_acks + v_news + v_notes, v_promoted, v_missed, GREATEST(v_acks, v_news, v_notes) >= p_limit, v_first,
           v_dropped;
END;

-- Dead messages whose time to live is over expire. Those of lanes leave them.
CREATE PROCEDURE IF NOT EXISTS {t}_expire_dead(IN p_now BIGINT, IN p_limit BIGINT) SQL SECURITY INVOKER
BEGIN
    DECLARE v_seqs LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_seq BIGINT;
    DECLARE v_moved INT;
    DECLARE v_is_over BOOLEAN DEFAULT FALSE;
    DECLARE v_laned CURSOR FOR
        SELECT w.seq FROM JSON_TABLE(v_seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS a
            STRAIGHT_JOIN {t}_lane AS w FORCE INDEX ({n}_lane_seq) ON w.seq = a.seq;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
    SET SESSION group_concat_max_len = 16777216;
    SELECT COALESCE(JSON_ARRAYAGG(late.seq), '[]') INTO v_seqs FROM (
        SELECT seq FROM {t}_trouble FORCE INDEX ({n}_trouble_lapsing) WHERE state = 3 AND expires_at <= p_now
        ORDER BY expires_at, seq LIMIT p_limit FOR UPDATE SKIP LOCKED) AS late;
    UPDATE JSON_TABLE(v_seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS a
        STRAIGHT_JOIN {t}_trouble AS t FORCE INDEX (PRIMARY) ON t.seq = a.seq
    SET t.state = 4, t.at = p_now;
    SET v_moved = ROW_COUNT();
    SET v_is_over = FALSE;
    OPEN v_laned;
    each_row: LOOP
        FETCH v_laned INTO v_seq;
        IF v_is_over THEN
            LEAVE each_row;
        END IF;
        CALL {t}_lane_leave(v_seq);
    END LOOP;
    CLOSE v_laned;
    SELECT v_moved;
END;
