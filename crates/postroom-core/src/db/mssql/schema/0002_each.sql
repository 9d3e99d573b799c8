-- The places of the messages.
INSERT INTO {t}_taken (seq, claim_no, owner, at, until)
SELECT seq, claim_no, owner, last_attempt_at, COALESCE(locked_until, visible_at, created_at)
FROM {t}_v1 WHERE state = 1;
INSERT INTO {t}_taken (seq, claim_no, owner, at, done_at, response)
SELECT seq, claim_no, processed_by, last_attempt_at, COALESCE(processed_at, created_at), response
FROM {t}_v1 WHERE state = 2;
INSERT INTO {t}_answer (seq, response)
SELECT seq, response FROM {t}_v1 WHERE response IS NOT NULL AND state <> 2;
INSERT INTO {t}_trouble (seq, state, at, processed_by, attempts, crashes, claims, visible_at, next_attempt_at,
                         last_attempt_at, expires_at, last_error, dismissed_by, dismissed_why)
SELECT m.seq, CASE WHEN v.state > 2 THEN v.state ELSE 0 END,
       CASE WHEN v.state > 2 THEN v.processed_at END,
       CASE WHEN v.state > 2 THEN v.processed_by END, v.attempts, v.crashes, v.claim_no,
       CASE WHEN v.state = 0 THEN m.visible_at END, v.next_attempt_at, v.last_attempt_at, m.expires_at, v.last_error,
       v.dismissed_by, v.dismissed_why
FROM {t}_v1 AS v JOIN {t} AS m ON m.seq = v.seq
WHERE v.state > 2 OR v.attempts > 0 OR v.crashes > 0 OR v.last_error IS NOT NULL OR v.next_attempt_at IS NOT NULL
   OR v.state = 0 AND v.claim_no > 0;
INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
SELECT m.visible_at, m.seq, {place}, m.expires_at, v.crashes, v.claim_no, DATALENGTH(m.payload)
FROM {t}_v1 AS v JOIN {t} AS m ON m.seq = v.seq WHERE v.state = 0;
DROP TABLE {t}_v1;
GO

