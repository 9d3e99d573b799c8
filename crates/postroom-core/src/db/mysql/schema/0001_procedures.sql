-- What a procedure only reads, it reads with SELECT … INTO: other statements lock what their subqueries read.

-- Claims messages: of some places (lists of names between line breaks, and whether they mean only these or all but
-- these), or of all if p_topics is null. If it runs alone, it commits.
CREATE PROCEDURE IF NOT EXISTS {t}_claim(
    IN p_alone BOOLEAN, IN p_suspects BOOLEAN, IN p_now BIGINT, IN p_limit BIGINT, IN p_owner BINARY(16),
    IN p_until BIGINT, IN p_from BIGINT, IN p_from_seq BIGINT, IN p_bytes BIGINT, IN p_least BIGINT,
    IN p_topics LONGTEXT CHARACTER SET utf8mb4, IN p_only_topics BOOLEAN,
    IN p_destinations LONGTEXT CHARACTER SET utf8mb4, IN p_only_destinations BOOLEAN
) SQL SECURITY INVOKER
claiming: BEGIN
    DECLARE v_lease, v_over BIGINT;
    DECLARE v_rows, v_swept INT DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        IF p_alone THEN
            ROLLBACK;
        END IF;
        RESIGNAL;
    END;
    IF p_alone THEN
        START TRANSACTION;
    END IF;
    IF NOT p_suspects THEN
        -- If nothing waits, nothing is written. A condition costs time even where it is not evaluated.
        IF p_topics IS NULL THEN
            SELECT seq INTO v_over FROM {t}_line FORCE INDEX (PRIMARY)
            WHERE {from_asked} AND crashes = 0 AND (expires_at IS NULL OR expires_at > p_now)
            LIMIT 1;
        ELSE
            SELECT seq INTO v_over FROM {t}_line FORCE INDEX (PRIMARY)
            WHERE {from_asked} AND crashes = 0 AND (expires_at IS NULL OR expires_at > p_now)
              AND {among_asked} LIMIT 1;
        END IF;
        IF v_over IS NULL AND p_alone THEN
            ROLLBACK;
        END IF;
        IF v_over IS NULL THEN
            LEAVE claiming;
        END IF;
    END IF;
    INSERT INTO {t}_lease (until) VALUES (p_until);
    SET v_lease = LAST_INSERT_ID();
    -- The bytes are added up on the way: to read the rows again would take as long as to write them.
    SET @postroom_bytes = 0;
    IF p_suspects THEN
        INSERT INTO {t}_taken (seq, lease, claim_no, owner, at, visible_at, laned)
        SELECT l.seq, v_lease, l.claims + 1 + 0 * (@postroom_bytes := @postroom_bytes + l.bytes), p_owner, p_now,
            l.visible_at, l.laned
        FROM {suspects}
        WHERE t.suspect_at <= p_now AND (l.expires_at IS NULL OR l.expires_at > p_now) AND {among_asked}
        ORDER BY t.suspect_at LIMIT p_limit FOR UPDATE SKIP LOCKED;
    ELSEIF p_topics IS NULL THEN
        INSERT INTO {t}_taken (seq, lease, claim_no, owner, at, visible_at, laned)
        SELECT seq, v_lease, claims + 1 + 0 * (@postroom_bytes := @postroom_bytes + bytes), p_owner, p_now, visible_at,
            laned
        FROM {t}_line FORCE INDEX (PRIMARY)
        WHERE {from_asked} AND crashes = 0 AND (expires_at IS NULL OR expires_at > p_now)
        ORDER BY visible_at, seq LIMIT p_limit FOR UPDATE SKIP LOCKED;
    ELSE
        INSERT INTO {t}_taken (seq, lease, claim_no, owner, at, visible_at, laned)
        SELECT seq, v_lease, claims + 1 + 0 * (@postroom_bytes := @postroom_bytes + bytes), p_owner, p_now, visible_at,
            laned
        FROM {t}_line FORCE INDEX (PRIMARY)
        WHERE {from_asked} AND crashes = 0 AND (expires_at IS NULL OR expires_at > p_now)
          AND {among_asked}
        ORDER BY visible_at, seq LIMIT p_limit FOR UPDATE SKIP LOCKED;
    END IF;
    SET v_rows = ROW_COUNT();
    IF @postroom_bytes > p_bytes THEN
        -- What is too much stays in the line.
        DELETE h FROM (
            SELECT l.seq, ROW_NUMBER() OVER by_turn AS nth, SUM(l.bytes) OVER by_turn AS total
            FROM {taken_and_line} WHERE h.done_at = 0 AND h.lease = v_lease
            WINDOW by_turn AS (ORDER BY l.visible_at, l.seq)) AS ranked
            STRAIGHT_JOIN {t}_taken AS h FORCE INDEX (PRIMARY) ON h.seq = ranked.seq
        WHERE ranked.nth > p_least AND ranked.total > p_bytes;
        SET v_rows = v_rows - ROW_COUNT();
    END IF;
    IF v_rows = 0 AND p_alone THEN
        ROLLBACK;
    ELSEIF v_rows = 0 THEN
        DELETE FROM {t}_lease WHERE no = v_lease;
    ELSE
        DELETE l FROM {taken_and_line} WHERE h.done_at = 0 AND h.lease = v_lease;
        IF p_suspects THEN
            UPDATE {t}_taken AS h FORCE INDEX ({n}_taken_by)
                STRAIGHT_JOIN {t}_trouble AS t FORCE INDEX (PRIMARY) ON t.seq = h.seq
            SET t.visible_at = NULL WHERE h.done_at = 0 AND h.lease = v_lease;
        END IF;
        -- Leases under which nothing is held any more, now and then, and less often if few messages wait: they would
        -- wait for it. Reading them must lock nothing, and others may sweep too.
        sweep: WHILE v_lease DIV @@auto_increment_increment % IF(v_rows < p_limit, 128, 16) = 0 AND v_swept < 256 DO
            SELECT MAX(found.no) INTO v_over FROM (
                SELECT e.no FROM {leases} WHERE {held_of} IS NULL ORDER BY e.until LIMIT 1) AS found;
            SELECT MAX(no) INTO v_over FROM {t}_lease WHERE no = v_over FOR UPDATE SKIP LOCKED;
            IF v_over IS NULL THEN
                LEAVE sweep;
            END IF;
            DELETE FROM {t}_lease WHERE no = v_over;
            SET v_swept = v_swept + 1;
        END WHILE;
    END IF;
    SELECT {message}, visible_at FROM (
        SELECT {wide}, h.claim_no, h.visible_at
        FROM {t}_taken AS h FORCE INDEX ({n}_taken_by) STRAIGHT_JOIN {t} AS m ON m.seq = h.seq{troubled}
        WHERE h.done_at = 0 AND h.lease = v_lease) AS claimed;
    IF p_alone THEN
        COMMIT;
    END IF;
END;

-- A message leaves where it stands, under that claim number, and enters where it goes. p_moved is 0 if it stood
-- elsewhere. If it has a lane, its row there follows: see where it is written below.
CREATE PROCEDURE IF NOT EXISTS {t}_move(
    IN p_seq BIGINT, IN p_claim_no BIGINT, IN p_state INT, IN p_visible_at BIGINT, IN p_due_at BIGINT,
    IN p_next_attempt_at BIGINT, IN p_attempts INT, IN p_crashes INT, IN p_claims BIGINT, IN p_owner BINARY(16),
    IN p_locked_until BIGINT, IN p_last_error TEXT CHARACTER SET utf8mb4, IN p_processed_at BIGINT,
    IN p_processed_by BINARY(16), IN p_expires_at BIGINT, IN p_response LONGTEXT CHARACTER SET utf8mb4,
    IN p_was INT, OUT p_moved INT
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_tried, v_stood, v_claims, v_past BIGINT;
    DECLARE v_lane VARBINARY(1020);
    DECLARE v_place, v_laned INT;
    -- The message comes first, as for those who delete it: their trigger looks for its place.
    SELECT MAX(seq), MAX(lane) INTO v_stood, v_lane FROM {t} WHERE seq = p_seq FOR UPDATE;
    SELECT MAX(last_attempt_at), MAX(claims) INTO v_tried, v_claims FROM {t}_trouble WHERE seq = p_seq;
    IF p_was = 0 AND v_lane IS NOT NULL THEN
        -- Whoever lets it have its turn holds this row.
        SELECT MAX(place), MAX(past) INTO v_place, v_past FROM {t}_lane WHERE seq = p_seq FOR UPDATE;
    END IF;
    IF v_place = 0 THEN
        SET p_moved = COALESCE(v_claims, 0) = p_claim_no;
    ELSEIF p_was = 0 THEN
        SELECT MAX(COALESCE(t.visible_at, m.visible_at)) INTO v_stood
        FROM {t} AS m LEFT JOIN {t}_trouble AS t ON t.seq = m.seq WHERE m.seq = p_seq;
        DELETE FROM {t}_line WHERE visible_at = v_stood AND seq = p_seq AND claims = p_claim_no;
        SET p_moved = ROW_COUNT();
    ELSEIF p_was < 3 THEN
        SELECT MAX(at) INTO v_tried FROM {t}_taken WHERE seq = p_seq;
        DELETE FROM {t}_taken WHERE seq = p_seq AND claim_no = p_claim_no AND (done_at <> 0) = (p_was = 2);
        SET p_moved = ROW_COUNT();
    ELSE
        UPDATE {t}_trouble SET state = 0 WHERE seq = p_seq AND state = p_was AND claims = p_claim_no;
        SET p_moved = ROW_COUNT();
    END IF;
    IF p_moved = 1 AND v_lane IS NOT NULL AND v_place IS NULL THEN
        SELECT MAX(place), MAX(past) INTO v_place, v_past FROM {t}_lane WHERE seq = p_seq FOR UPDATE;
    END IF;
    IF p_moved = 1 THEN
        UPDATE {t} SET due_at = p_due_at, born = IF(born = 5 AND p_state <> 5, 1, born)
        WHERE seq = p_seq AND (NOT due_at <=> p_due_at OR born = 5 AND p_state <> 5);
        INSERT INTO {t}_trouble (seq, state, at, processed_by, attempts, crashes, claims, visible_at, next_attempt_at,
            last_attempt_at, expires_at, last_error)
        VALUES (p_seq, IF(p_state > 2, p_state, 0), p_processed_at, p_processed_by, p_attempts, p_crashes,
            p_claims, IF(p_state = 0, p_visible_at, NULL), p_next_attempt_at, v_tried, p_expires_at, p_last_error)
        ON DUPLICATE KEY UPDATE state = VALUES(state), at = IF(VALUES(state) IN (5, 6), at, VALUES(at)),
            processed_by = VALUES(processed_by), attempts = VALUES(attempts), crashes = VALUES(crashes),
            claims = VALUES(claims), visible_at = VALUES(visible_at), next_attempt_at = VALUES(next_attempt_at),
            last_attempt_at = VALUES(last_attempt_at), expires_at = VALUES(expires_at),
            last_error = VALUES(last_error);
        IF p_was = 2 AND v_place IS NOT NULL THEN
            -- It is done, and nobody has looked at its lane since.
            CALL {t}_lane_leave(p_seq);
            SET v_place = NULL;
        END IF;
        SET v_laned = v_place IS NOT NULL;
        IF v_place = 0 AND p_state = 0 THEN
            -- It goes on waiting for its turn.
            UPDATE {t}_lane AS w STRAIGHT_JOIN (SELECT OCTET_LENGTH(payload) AS bytes, {place} AS route
                                                FROM {t} WHERE seq = p_seq) AS m
            SET w.at = p_visible_at, w.expires_at = p_expires_at, w.bytes = m.bytes, w.route = m.route
            WHERE w.seq = p_seq;
        ELSEIF v_place IS NULL AND v_lane IS NOT NULL AND p_state = 0 THEN
            -- It comes again, so it is the last of its lane.
            CALL {t}_lane_again(p_seq, v_lane, p_visible_at, p_expires_at);
        ELSEIF p_state = 0 AND v_place > 1 THEN
            -- It was dead and nobody passed it, so it keeps its number. Its turn is decided by a look.
            UPDATE {t}_lane SET place = 0, at = p_visible_at, expires_at = p_expires_at WHERE seq = p_seq;
            INSERT INTO {t}_lane_notes (lane) VALUES (v_lane);
            SET v_place = 0;
        ELSEIF p_state = 0 AND p_was = 1 AND v_place = 1 AND (
                EXISTS (SELECT 1 FROM {t}_lane AS w JOIN {t}_lane AS o ON o.lane = w.lane AND o.no < w.no
                        WHERE w.seq = p_seq)
                OR EXISTS (SELECT 1 FROM {t}_rules AS r STRAIGHT_JOIN {t} AS m ON m.seq = p_seq
                           WHERE r.paused_at IS NOT NULL
                             AND (r.kind = 'lane' AND r.name = v_lane
                                  OR r.kind = 'lanes' AND r.name = CAST(m.topic AS BINARY)))) THEN
            -- It comes back from work and is not the first of its lane, or the lane is paused.
            UPDATE {t}_lane SET place = 0, at = p_visible_at, expires_at = p_expires_at WHERE seq = p_seq;
            INSERT INTO {t}_lane_notes (lane) VALUES (v_lane);
            SET v_place = 0;
        ELSEIF p_state = 1 AND v_place IN (0, 2, 3) THEN
            -- It is handled out of turn.
            UPDATE {t}_lane SET place = 1, expires_at = NULL WHERE seq = p_seq;
            INSERT INTO {t}_lane_notes (lane) VALUES (v_lane);
        ELSEIF p_state = 3 AND p_was = 1 AND p_claims = p_claim_no AND v_place IN (1, 2, 3) THEN
            -- Its last attempt failed. Its lane's rule says whether the others pass it. What is dead by hand leaves.
            UPDATE {t}_lane SET place = 2 WHERE seq = p_seq;
            -- Not INSERT … SELECT: that locks the numbers of notes.
            INSERT INTO {t}_lane_notes (lane, past) VALUES (v_lane, v_past);
            IF EXISTS (SELECT 1 FROM {t}_rules WHERE kind IN ('lane', 'lanes') AND places > 1) THEN
                -- Others may have their turn as well, and must not pass it if it blocks.
                CALL {t}_lane_heads_back(v_lane);
            END IF;
        -- One that is dead already may get another content. That changes nothing in its lane.
        ELSEIF v_laned AND p_state > 1 AND (p_state <> 3 OR p_was <> 3 OR p_claims <> p_claim_no) THEN
            CALL {t}_lane_leave(p_seq);
        END IF;
        IF p_state = 0 AND (v_lane IS NULL OR v_place > 0) THEN
            INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes, laned)
            SELECT p_visible_at, seq, {place}, p_expires_at, p_crashes, p_claims, OCTET_LENGTH(payload), v_laned
            FROM {t} WHERE seq = p_seq;
        ELSEIF p_state = 1 THEN
            INSERT INTO {t}_lease (until) VALUES (p_locked_until);
            INSERT INTO {t}_taken (seq, lease, claim_no, owner, at, laned)
            VALUES (p_seq, LAST_INSERT_ID(), p_claims, p_owner, v_tried, v_laned);
        ELSEIF p_state = 2 THEN
            INSERT INTO {t}_taken (seq, lease, claim_no, owner, at, done_at)
            VALUES (p_seq, 0, p_claims, p_processed_by, v_tried, COALESCE(p_processed_at, 1));
        END IF;
        DELETE FROM {t}_answer WHERE seq = p_seq;
        IF p_response IS NOT NULL THEN
            INSERT INTO {t}_answer (seq, response) VALUES (p_seq, p_response);
        END IF;
    END IF;
END;

CREATE PROCEDURE IF NOT EXISTS {t}_save(
    IN p_seq BIGINT, IN p_claim_no BIGINT, IN p_state INT, IN p_visible_at BIGINT, IN p_due_at BIGINT,
    IN p_next_attempt_at BIGINT, IN p_attempts INT, IN p_crashes INT, IN p_claims BIGINT, IN p_owner BINARY(16),
    IN p_locked_until BIGINT, IN p_last_error TEXT CHARACTER SET utf8mb4, IN p_processed_at BIGINT,
    IN p_processed_by BINARY(16), IN p_expires_at BIGINT, IN p_response LONGTEXT CHARACTER SET utf8mb4,
    IN p_was INT
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_moved INT;
    CALL {t}_move(p_seq, p_claim_no, p_state, p_visible_at, p_due_at, p_next_attempt_at, p_attempts, p_crashes,
        p_claims, p_owner, p_locked_until, p_last_error, p_processed_at, p_processed_by, p_expires_at, p_response,
        p_was, v_moved);
    SELECT v_moved;
END;

-- The same for many messages, as a JSON array of objects.
CREATE PROCEDURE IF NOT EXISTS {t}_save_many(IN p_rows LONGTEXT CHARACTER SET utf8mb4) SQL SECURITY INVOKER
BEGIN
    DECLARE p_seq, p_claim_no, p_was BIGINT;
    DECLARE p_state, p_attempts, p_crashes INT;
    DECLARE p_visible_at, p_due_at, p_next_attempt_at, p_claims, p_locked_until, p_processed_at, p_expires_at BIGINT;
    DECLARE p_owner, p_processed_by BINARY(16);
    DECLARE p_last_error TEXT CHARACTER SET utf8mb4;
    DECLARE p_response LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_moved, v_all INT DEFAULT 0;
    DECLARE v_is_over BOOLEAN DEFAULT FALSE;
    DECLARE v_rows CURSOR FOR SELECT a.seq, a.claim_no, a.state, a.visible_at, a.due_at, a.next_attempt_at,
            a.attempts, a.crashes, a.claims, UNHEX(REPLACE(a.owner, '-', '')), a.locked_until, a.last_error,
            a.processed_at, UNHEX(REPLACE(a.processed_by, '-', '')), a.expires_at, a.response, a.was
        FROM JSON_TABLE(p_rows, '$[*]' COLUMNS (
            seq BIGINT PATH '$.v1', claim_no BIGINT PATH '$.v2', state INT PATH '$.v3',
            visible_at BIGINT PATH '$.v4', due_at BIGINT PATH '$.v5', next_attempt_at BIGINT PATH '$.v6',
            attempts INT PATH '$.v7', crashes INT PATH '$.v8', claims BIGINT PATH '$.v9',
            owner CHAR(36) CHARACTER SET ascii PATH '$.v10', locked_until BIGINT PATH '$.v11',
            last_error TEXT CHARACTER SET utf8mb4 PATH '$.v12', processed_at BIGINT PATH '$.v13',
            processed_by CHAR(36) CHARACTER SET ascii PATH '$.v14', expires_at BIGINT PATH '$.v15',
            response LONGTEXT CHARACTER SET utf8mb4 PATH '$.v16', was INT PATH '$.v17')) AS a;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
    OPEN v_rows;
    each_row: LOOP
        FETCH v_rows INTO p_seq, p_claim_no, p_state, p_visible_at, p_due_at, p_next_attempt_at, p_attempts, p_crashes,
            p_claims, p_owner, p_locked_until, p_last_error, p_processed_at, p_processed_by, p_expires_at, p_response,
            p_was;
        IF v_is_over THEN
            LEAVE each_row;
        END IF;
        CALL {t}_move(p_seq, p_claim_no, p_state, p_visible_at, p_due_at, p_next_attempt_at, p_attempts, p_crashes,
            p_claims, p_owner, p_locked_until, p_last_error, p_processed_at, p_processed_by, p_expires_at, p_response,
            p_was, v_moved);
        SET v_all = v_all + v_moved;
    END LOOP;
    CLOSE v_rows;
    SELECT v_all;
END;

CREATE PROCEDURE IF NOT EXISTS {t}_put_back(
    IN p_seq BIGINT, IN p_claim_no BIGINT, IN p_was INT, IN p_state INT, IN p_visible_at BIGINT,
    IN p_next_attempt_at BIGINT, IN p_attempts INT, IN p_crashes INT, IN p_processed_at BIGINT, IN p_expires_at BIGINT
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_moved INT;
    DECLARE v_due_at BIGINT;
    DECLARE v_last_error TEXT CHARACTER SET utf8mb4;
    SELECT due_at, last_error INTO v_due_at, v_last_error FROM {t}_state WHERE seq = p_seq;
    CALL {t}_move(p_seq, p_claim_no, p_state, p_visible_at, v_due_at, p_next_attempt_at, p_attempts, p_crashes,
        p_claim_no, NULL, NULL, v_last_error, p_processed_at, NULL, p_expires_at, NULL, p_was, v_moved);
    SELECT v_moved;
END;

CREATE PROCEDURE IF NOT EXISTS {t}_dismiss(
    IN p_seq BIGINT, IN p_claim_no BIGINT, IN p_was INT, IN p_now BIGINT,
    IN p_who VARCHAR(255) CHARACTER SET utf8mb4, IN p_why TEXT CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_moved, v_attempts, v_crashes INT;
    DECLARE v_due_at, v_next_attempt_at, v_expires_at BIGINT;
    DECLARE v_processed_by BINARY(16);
    DECLARE v_last_error TEXT CHARACTER SET utf8mb4;
    DECLARE v_response LONGTEXT CHARACTER SET utf8mb4;
    SELECT due_at, next_attempt_at, attempts, crashes, last_error, processed_by, expires_at, response
    INTO v_due_at, v_next_attempt_at, v_attempts, v_crashes, v_last_error, v_processed_by, v_expires_at, v_response
    FROM {t}_state WHERE seq = p_seq;
    CALL {t}_move(p_seq, p_claim_no, 7, NULL, v_due_at, v_next_attempt_at, v_attempts, v_crashes, p_claim_no, NULL,
        NULL, v_last_error, p_now, v_processed_by, v_expires_at, v_response, p_was, v_moved);
    IF v_moved = 1 THEN
        UPDATE {t}_trouble SET dismissed_by = p_who, dismissed_why = p_why WHERE seq = p_seq;
    END IF;
    SELECT v_moved;
END;

-- Corrects the times of a message that waits or is held only because a clock was wrong.
CREATE PROCEDURE IF NOT EXISTS {t}_correct(
    IN p_seq BIGINT, IN p_claim_no BIGINT, IN p_state INT, IN p_visible_at BIGINT, IN p_next_attempt_at BIGINT,
    IN p_locked_until BIGINT, IN p_last_attempt_at BIGINT, IN p_created_at BIGINT, IN p_stood_at BIGINT
) SQL SECURITY INVOKER
BEGIN
    DECLARE v_moved, v_attempts, v_crashes INT DEFAULT 0;
    DECLARE v_due_at, v_expires_at, v_stood_at BIGINT;
    DECLARE v_owner BINARY(16);
    DECLARE v_last_error TEXT CHARACTER SET utf8mb4;
    DECLARE v_response LONGTEXT CHARACTER SET utf8mb4;
    SELECT visible_at, due_at, attempts, crashes, owner, last_error, expires_at, response
    INTO v_stood_at, v_due_at, v_attempts, v_crashes, v_owner, v_last_error, v_expires_at, v_response
    FROM {t}_state WHERE seq = p_seq;
    IF v_stood_at = p_stood_at THEN
        CALL {t}_move(p_seq, p_claim_no, p_state, p_visible_at, v_due_at, p_next_attempt_at, v_attempts, v_crashes,
            p_claim_no, v_owner, p_locked_until, v_last_error, NULL, NULL, v_expires_at, v_response, p_state, v_moved);
    END IF;
    IF v_moved = 1 THEN
        UPDATE {t} SET created_at = p_created_at WHERE seq = p_seq;
        UPDATE {t}_trouble SET last_attempt_at = p_last_attempt_at WHERE seq = p_seq;
        UPDATE {t}_taken SET at = p_last_attempt_at WHERE seq = p_seq;
    END IF;
    SELECT v_moved;
END;

-- Holds the message that was just inserted, in the transaction in which it arrived. Answers with its number.
CREATE PROCEDURE IF NOT EXISTS {t}_hold(IN p_owner BINARY(16), IN p_now BIGINT, IN p_until BIGINT) SQL SECURITY INVOKER
BEGIN
    DECLARE v_seq BIGINT DEFAULT LAST_INSERT_ID();
    INSERT INTO {t}_lease (until) VALUES (p_until);
    INSERT INTO {t}_taken (seq, lease, claim_no, owner, at) VALUES (v_seq, LAST_INSERT_ID(), 1, p_owner, p_now);
    SELECT v_seq;
END;

-- Extends leases, given as a JSON array of messages with owner and claim number. Answers with those that are held. A
-- lease of which only a part is extended leaves that part to a new one. The last column of an answer is 0 if the
-- message went to another lease meanwhile.
CREATE PROCEDURE IF NOT EXISTS {t}_extend(IN p_rows LONGTEXT CHARACTER SET utf8mb4, IN p_until BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_lease, v_asked, v_all, v_new BIGINT;
    DECLARE v_is_over BOOLEAN DEFAULT FALSE;
    -- No message is locked: one whose ack is not committed yet would hold up the others. Who reaps locks the lease.
    DECLARE v_leases CURSOR FOR
        SELECT mine.lease, mine.asked,
               (SELECT COUNT(*) FROM {t}_taken AS o WHERE o.done_at = 0 AND o.lease = mine.lease)
        FROM (SELECT h.lease, COUNT(DISTINCT h.seq) AS asked FROM {asked} WHERE {asked_held}
              GROUP BY h.lease) AS mine;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
    OPEN v_leases;
    each_lease: LOOP
        FETCH v_leases INTO v_lease, v_asked, v_all;
        IF v_is_over THEN
            LEAVE each_lease;
        END IF;
        IF v_asked = v_all THEN
            UPDATE {t}_lease SET until = p_until WHERE no = v_lease;
        ELSE
            INSERT INTO {t}_lease (until) VALUES (p_until);
            SET v_new = LAST_INSERT_ID();
            UPDATE {asked} SET h.lease = v_new WHERE {asked_held} AND h.lease = v_lease;
        END IF;
    END LOOP;
    CLOSE v_leases;
    SELECT DISTINCT h.seq, h.claim_no, e.until >= p_until
    FROM {asked} JOIN {t}_lease AS e ON e.no = h.lease WHERE {asked_held};
END;

-- Deletes messages that have been in a state since before a time, oldest first.
CREATE PROCEDURE IF NOT EXISTS {t}_purge(IN p_state INT, IN p_before BIGINT, IN p_limit BIGINT) SQL SECURITY INVOKER
BEGIN
    DECLARE v_seqs LONGTEXT CHARACTER SET utf8mb4;
    SET SESSION group_concat_max_len = 16777216;
    IF p_state = 2 THEN
        SELECT JSON_ARRAYAGG(old.seq) INTO v_seqs FROM (
            SELECT m.seq FROM {t}_taken AS h FORCE INDEX ({n}_taken_by)
                STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = h.seq
            WHERE h.done_at BETWEEN 1 AND p_before - 1
            ORDER BY h.done_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS old;
    ELSE
        SELECT JSON_ARRAYAGG(old.seq) INTO v_seqs FROM (
            SELECT m.seq FROM {t}_trouble AS t FORCE INDEX ({n}_trouble_old)
                STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = t.seq
            WHERE t.state = p_state AND t.at < p_before
            ORDER BY t.at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS old;
    END IF;
    DELETE m FROM JSON_TABLE(COALESCE(v_seqs, '[]'), '$[*]' COLUMNS (seq BIGINT PATH '$')) AS gone
        STRAIGHT_JOIN {t} AS m FORCE INDEX (PRIMARY) ON m.seq = gone.seq;
    SELECT ROW_COUNT();
END;
