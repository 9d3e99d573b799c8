-- Every message with its state, for a message by its number, id or key.
IF OBJECT_ID(N'{t}_state', N'V') IS NULL
EXEC (N'CREATE VIEW {t}_state AS
SELECT {wide},
    CASE WHEN l.seq IS NOT NULL THEN 0 WHEN h.done_at = 0 THEN 1 WHEN h.done_at > 0 THEN 2
         WHEN t.state > 0 THEN t.state ELSE -1 END AS state, -- -1: it stands nowhere, and doctor reports it
    CASE WHEN l.seq IS NOT NULL THEN l.visible_at WHEN h.done_at = 0 THEN h.until END AS visible_at,
    COALESCE(l.claims, h.claim_no, t.claims, 0) AS claim_no,
    CASE WHEN h.done_at = 0 THEN h.owner END AS owner,
    CASE WHEN h.done_at = 0 THEN h.until END AS locked_until,
    CASE WHEN h.seq IS NOT NULL THEN h.at ELSE t.last_attempt_at END AS last_attempt_at,
    CASE WHEN h.done_at > 0 THEN h.done_at WHEN t.state IN (3, 4, 7) THEN t.at END AS processed_at,
    CASE WHEN h.done_at > 0 THEN h.owner WHEN t.state > 0 THEN t.processed_by END AS processed_by,
    COALESCE(h.response, a.response) AS response
FROM {t} AS m{beside}
    LEFT JOIN {t}_line AS l ON l.visible_at = COALESCE(t.visible_at, m.visible_at) AND l.seq = m.seq
    LEFT JOIN {t}_taken AS h ON h.seq = m.seq');
GO

-- The same messages, for those in one state.
IF OBJECT_ID(N'{t}_by_state', N'V') IS NULL
EXEC (N'CREATE VIEW {t}_by_state AS
SELECT {wide}, 0 AS state, l.visible_at, l.claims AS claim_no, CAST(NULL AS uniqueidentifier) AS owner,
    CAST(NULL AS bigint) AS locked_until, t.last_attempt_at, CAST(NULL AS bigint) AS processed_at,
    CAST(NULL AS uniqueidentifier) AS processed_by, a.response
FROM {t}_line AS l JOIN {t} AS m ON m.seq = l.seq{beside}
UNION ALL
SELECT {wide}, {held}
FROM {t}_taken AS h JOIN {t} AS m ON m.seq = h.seq{beside}
WHERE h.done_at = 0
UNION ALL
SELECT {wide}, 2 AS state, CAST(NULL AS bigint) AS visible_at, h.claim_no, CAST(NULL AS uniqueidentifier) AS owner,
    CAST(NULL AS bigint) AS locked_until, h.at AS last_attempt_at, h.done_at AS processed_at,
    h.owner AS processed_by, COALESCE(h.response, a.response) AS response
FROM {t}_taken AS h JOIN {t} AS m ON m.seq = h.seq{beside}
WHERE h.done_at > 0
UNION ALL
SELECT {wide_ended}, {ended}, t.at AS processed_at, t.processed_by, a.response
FROM {t}_trouble AS t JOIN {t} AS m ON m.seq = t.seq{answered}
WHERE t.state IN (3, 4, 7)
UNION ALL
SELECT {wide_ended}, {ended}, CAST(NULL AS bigint) AS processed_at, t.processed_by, a.response
FROM {t}_trouble AS t JOIN {t} AS m ON m.seq = t.seq{answered}
WHERE t.state IN (5, 6)');
GO

-- Messages that do not stand in exactly one place, and places without a message. It is always empty.
IF OBJECT_ID(N'{t}_misplaced', N'V') IS NULL
EXEC (N'CREATE VIEW {t}_misplaced AS
SELECT m.seq AS seq, CASE WHEN l.seq IS NULL THEN 0 ELSE 1 END + CASE WHEN h.seq IS NULL THEN 0 ELSE 1 END
    + CASE WHEN t.state > 0 THEN 1 ELSE 0 END AS places
FROM {t} AS m
    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq
    LEFT JOIN {t}_line AS l ON l.visible_at = COALESCE(t.visible_at, m.visible_at) AND l.seq = m.seq
    LEFT JOIN {t}_taken AS h ON h.seq = m.seq
WHERE CASE WHEN l.seq IS NULL THEN 0 ELSE 1 END + CASE WHEN h.seq IS NULL THEN 0 ELSE 1 END
    + CASE WHEN t.state > 0 THEN 1 ELSE 0 END <> 1
UNION ALL
SELECT l.seq, 0 FROM {t}_line AS l
    LEFT JOIN {t} AS m ON m.seq = l.seq
    LEFT JOIN {t}_trouble AS t ON t.seq = l.seq
WHERE m.seq IS NULL OR l.visible_at <> COALESCE(t.visible_at, m.visible_at, l.visible_at - 1)
UNION ALL
SELECT h.seq, 0 FROM {t}_taken AS h LEFT JOIN {t} AS m ON m.seq = h.seq WHERE m.seq IS NULL
UNION ALL
SELECT t.seq, 0 FROM {t}_trouble AS t LEFT JOIN {t} AS m ON m.seq = t.seq WHERE m.seq IS NULL');
GO

