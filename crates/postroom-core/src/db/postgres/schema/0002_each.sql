INSERT INTO {t}_trouble (seq, state, at, by, attempts, crashes, claims, visible_at, next_attempt_at, last_attempt_at,
    expires_at, last_error, dismissed_by, dismissed_why)
SELECT seq, CASE WHEN state > 2 THEN state ELSE 0 END,
    CASE WHEN state IN (5, 6) THEN last_seen_at WHEN state > 2 THEN processed_at END,
    CASE WHEN state > 2 THEN processed_by END, attempts, crashes, claim_no,
    CASE WHEN state = 0 THEN coalesce(visible_at, first_at) END, next_attempt_at, last_attempt_at, expires_at,
    last_error, dismissed_by, dismissed_why
FROM {n}_v1
WHERE state > 2 OR attempts > 0 OR crashes > 0 OR last_error IS NOT NULL OR next_attempt_at IS NOT NULL
    OR state = 0 AND claim_no > 0;

INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes)
SELECT coalesce(t.visible_at, m.visible_at), m.seq, {place}, w.expires_at, least(w.crashes, 32767), w.claim_no,
    octet_length(m.payload)
FROM {n}_v1 AS w JOIN {t} AS m ON m.seq = w.seq LEFT JOIN {t}_trouble AS t ON t.seq = w.seq
WHERE w.state = 0;

INSERT INTO {t}_lease (at, until, first_seq, last_seq, n)
SELECT last_attempt_at, coalesce(locked_until, visible_at, first_at), seq, seq, 1 FROM {n}_v1 WHERE state = 1;

INSERT INTO {t}_held (seq, lease, owner, claim_no)
SELECT w.seq, e.no, w.owner, w.claim_no FROM {n}_v1 AS w JOIN {t}_lease AS e ON e.first_seq = w.seq WHERE w.state = 1;

INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at)
SELECT seq, seq, claim_no, coalesce(processed_at, first_at), processed_by, last_attempt_at FROM {n}_v1 WHERE state = 2;

INSERT INTO {t}_answer (seq, response) SELECT seq, response FROM {n}_v1 WHERE response IS NOT NULL;

-- Who could do everything with the messages can do so with the new tables, and who could read them can read those.
DO $rights$
DECLARE
    told record;
BEGIN
    FOR told IN
        SELECT c.oid::regclass AS name, r.role, r.rights
        FROM (SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role,
                  CASE WHEN count(*) FILTER (WHERE a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')) = 4
                       THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END AS rights
              FROM pg_class AS m CROSS JOIN LATERAL aclexplode(m.relacl) AS a
              WHERE m.oid = '{t}'::regclass AND a.grantee <> m.relowner
              GROUP BY a.grantee HAVING bool_or(a.privilege_type = 'SELECT')) AS r
            CROSS JOIN pg_class AS c
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{t}'::regclass)
          AND c.relname IN ('{n}_line', '{n}_lease', '{n}_held', '{n}_done', '{n}_trouble', '{n}_answer', '{n}_seen',
              '{n}_holds', '{n}_audit', '{n}_lane', '{n}_lane_notes', '{n}_rules', '{n}_rates', '{n}_stops', '{n}_unique',
              '{n}_take', '{n}_state', '{n}_by_state', '{n}_misplaced')
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', told.rights, told.name, told.role);
    END LOOP;
END
$rights$;

