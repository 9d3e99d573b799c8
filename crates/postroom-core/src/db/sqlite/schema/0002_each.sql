INSERT INTO {t}_trouble (seq, state, at, by, attempts, crashes, claims, next_attempt_at, last_attempt_at, expires_at,
    last_error, dismissed_by, dismissed_why)
SELECT seq, CASE WHEN state > 2 THEN state ELSE 0 END,
    CASE WHEN state IN (5, 6) THEN (SELECT last_seen_at FROM {t}_v1 AS o WHERE o.seq = m.seq)
         WHEN state > 2 THEN processed_at END,
    CASE WHEN state > 2 THEN processed_by END, attempts, crashes, claim_no, next_attempt_at, last_attempt_at, expires_at,
    last_error, (SELECT dismissed_by FROM {t}_v1 AS o WHERE o.seq = m.seq),
    (SELECT dismissed_why FROM {t}_v1 AS o WHERE o.seq = m.seq)
FROM (SELECT seq, state, processed_at, processed_by, attempts, crashes, claim_no, next_attempt_at, last_attempt_at,
          expires_at, last_error, NULL AS last_seen_at, NULL AS dismissed_by, NULL AS dismissed_why
      FROM {t}_v1) AS m
WHERE state > 2 OR attempts > 0 OR crashes > 0 OR last_error IS NOT NULL OR next_attempt_at IS NOT NULL
    OR state = 0 AND claim_no > 0
ON CONFLICT (seq) DO UPDATE SET state = excluded.state, at = excluded.at, by = excluded.by,
    attempts = excluded.attempts, crashes = excluded.crashes, claims = excluded.claims,
    next_attempt_at = excluded.next_attempt_at, last_attempt_at = excluded.last_attempt_at,
    expires_at = excluded.expires_at, last_error = excluded.last_error, dismissed_by = excluded.dismissed_by,
    dismissed_why = excluded.dismissed_why;

INSERT INTO {t}_line (seq, place, visible_at, expires_at, crashes)
SELECT seq, {place}, coalesce(visible_at, created_at), expires_at, crashes FROM {t}_v1 WHERE state = 0;

INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at, response)
SELECT seq, seq, claim_no, coalesce(processed_at, created_at), processed_by, last_attempt_at, response
FROM {t}_v1 WHERE state = 2 ORDER BY seq;

INSERT INTO {t}_held (from_seq, to_seq, no, owner, at, until)
SELECT seq, seq, claim_no, owner, last_attempt_at, coalesce(locked_until, visible_at, created_at)
FROM {t}_v1 WHERE state = 1 ORDER BY seq;

INSERT INTO {t}_answer (seq, response) SELECT seq, response FROM {t}_v1 WHERE response IS NOT NULL AND state <> 2;

INSERT INTO {t}_failures (rowid, seq, at, attempt, worker, error, code)
SELECT no, seq, at, attempt, worker, error, (SELECT code FROM {t}_failures_v1 AS o WHERE o.rowid = f.no)
FROM (SELECT rowid AS no, seq, at, attempt, worker, error, NULL AS code FROM {t}_failures_v1) AS f;

-- No number is given twice, not even that of a message that was deleted.
DELETE FROM sqlite_sequence WHERE name = '{n}';
INSERT INTO sqlite_sequence (name, seq) SELECT '{n}', seq FROM sqlite_sequence WHERE name = '{n}_v1';
UPDATE {t}_front SET next = 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{n}'), 0);

DROP TABLE {t}_v1;
DROP TABLE {t}_failures_v1;

