-- The places of the messages. Those that were written since the tables have triggers stand in one already.
DROP PROCEDURE IF EXISTS {t}_v1_end;
CREATE PROCEDURE {t}_v1_end()
BEGIN
    DECLARE v_schema VARCHAR(64) DEFAULT COALESCE(NULLIF('{schema}', ''), DATABASE());
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = v_schema AND table_name = '{n}' AND column_name = 'v1_claim_no') THEN
        -- Reading locks the messages, so that nobody deletes one while it gets its place.
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        START TRANSACTION;
        INSERT INTO {t}_lease (until)
        SELECT DISTINCT COALESCE(locked_until, visible_at, created_at) FROM {t} AS m
        WHERE state = 1 AND NOT EXISTS (SELECT 1 FROM {t}_taken AS h WHERE h.seq = m.seq);

        INSERT IGNORE INTO {t}_taken (seq, lease, claim_no, owner, at, visible_at, done_at, response)
        SELECT m.seq,
               (SELECT max(e.no) FROM {t}_lease AS e WHERE e.until = COALESCE(m.locked_until, m.visible_at, m.created_at)),
               m.v1_claim_no, m.owner, m.last_attempt_at, GREATEST(m.created_at, COALESCE(m.due_at, m.created_at)), 0,
               NULL
        FROM {t} AS m WHERE m.state = 1
        UNION ALL
        SELECT seq, 0, v1_claim_no, processed_by, last_attempt_at, NULL, COALESCE(processed_at, created_at), response
        FROM {t} WHERE state = 2;

        INSERT IGNORE INTO {t}_answer (seq, response)
        SELECT seq, response FROM {t} WHERE response IS NOT NULL AND state <> 2;

        UPDATE {t} SET visible_at = GREATEST(created_at, COALESCE(due_at, created_at))
        WHERE state NOT IN (0, 5, 6) OR state = 0 AND visible_at IS NULL;
        UPDATE {t} SET born = IF(state IN (5, 6), state, 0) WHERE born <> IF(state IN (5, 6), state, 0);

        INSERT IGNORE INTO {t}_trouble (seq, state, at, processed_by, attempts, crashes, claims, visible_at,
            next_attempt_at, last_attempt_at, expires_at, last_error, dismissed_by, dismissed_why)
        SELECT seq, IF(state > 2, state, 0), IF(state > 2, processed_at, NULL), IF(state > 2, processed_by, NULL),
            attempts, crashes, v1_claim_no, IF(state = 0, visible_at, NULL), next_attempt_at, last_attempt_at,
            expires_at, last_error, dismissed_by, dismissed_why
        FROM {t}
        WHERE state > 2 OR attempts > 0 OR crashes > 0 OR last_error IS NOT NULL OR next_attempt_at IS NOT NULL
           OR state = 0 AND v1_claim_no > 0;

        INSERT IGNORE INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
        SELECT visible_at, seq, {place}, expires_at, crashes, v1_claim_no, OCTET_LENGTH(payload) FROM {t}
        WHERE state = 0;
        COMMIT;

        IF EXISTS (SELECT 1 FROM information_schema.columns
                   WHERE table_schema = v_schema AND table_name = '{n}' AND column_name = 'suspect_at') THEN
            ALTER TABLE {t} DROP COLUMN suspect_at;
        END IF;
        ALTER TABLE {t}
            DROP KEY {n}_work, DROP KEY {n}_expiring, DROP KEY {n}_finished,
            DROP COLUMN state, DROP COLUMN next_attempt_at, DROP COLUMN attempts, DROP COLUMN crashes,
            DROP COLUMN v1_claim_no, DROP COLUMN owner, DROP COLUMN locked_until, DROP COLUMN last_attempt_at,
            DROP COLUMN last_error, DROP COLUMN processed_at, DROP COLUMN processed_by, DROP COLUMN response,
            DROP COLUMN dismissed_by, DROP COLUMN dismissed_why;
    END IF;
END;
CALL {t}_v1_end();
DROP PROCEDURE {t}_v1_end;

