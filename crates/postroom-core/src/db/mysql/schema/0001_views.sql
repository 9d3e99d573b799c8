-- Every message with its state, for a message by its number, id or key.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW {t}_state AS
SELECT {wide},
    CASE WHEN l.seq IS NOT NULL OR w.seq IS NOT NULL THEN 0 WHEN h.seq IS NOT NULL THEN IF(h.done_at = 0, 1, 2)
         WHEN t.state > 0 THEN t.state ELSE -1 END AS state, -- -1: it stands nowhere, and doctor reports it
    CASE WHEN l.seq IS NOT NULL THEN l.visible_at WHEN h.done_at = 0 THEN e.until ELSE w.at END AS visible_at,
    COALESCE(l.claims, h.claim_no, t.claims, 0) AS claim_no,
    CASE WHEN h.done_at = 0 THEN h.owner END AS owner, e.until AS locked_until,
    CASE WHEN h.seq IS NOT NULL THEN h.at ELSE t.last_attempt_at END AS last_attempt_at,
    CASE WHEN h.done_at <> 0 THEN ABS(h.done_at) WHEN t.state IN (3, 4, 7) THEN t.at END AS processed_at,
    CASE WHEN h.done_at <> 0 THEN h.owner WHEN t.state > 0 THEN t.processed_by END AS processed_by,
    COALESCE(h.response, a.response) AS response
FROM {t} AS m{beside}
    LEFT JOIN {t}_line AS l ON l.visible_at = COALESCE(t.visible_at, m.visible_at) AND l.seq = m.seq
    LEFT JOIN {t}_taken AS h ON h.seq = m.seq
    LEFT JOIN {t}_lease AS e ON e.no = h.lease AND h.done_at = 0
    LEFT JOIN {t}_lane AS w ON m.lane IS NOT NULL AND w.seq = m.seq AND w.place = 0;

-- The same messages, for those in one state.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW {t}_by_state AS
{of_line}
UNION ALL
{of_lane}
UNION ALL
{of_held}
UNION ALL
{of_done}
UNION ALL
{of_ended};

-- Messages that do not stand in exactly one place, and places without a message. It is always empty. A row of a lane
-- says where its message stands: in the line or in progress as one of the lane, or dead.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW {t}_misplaced AS
SELECT m.seq AS seq,
    (l.seq IS NOT NULL) + (h.seq IS NOT NULL) + (COALESCE(t.state, 0) > 0) + (w.seq IS NOT NULL) AS places
FROM {t} AS m
    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq
    LEFT JOIN {t}_line AS l ON l.visible_at = COALESCE(t.visible_at, m.visible_at) AND l.seq = m.seq
    LEFT JOIN {t}_taken AS h ON h.seq = m.seq
    LEFT JOIN {t}_lane AS w ON w.seq = m.seq AND w.place = 0
WHERE (l.seq IS NOT NULL) + (h.seq IS NOT NULL) + (COALESCE(t.state, 0) > 0) + (w.seq IS NOT NULL) <> 1
UNION ALL
SELECT l.seq, 0 FROM {t}_line AS l
    LEFT JOIN {t} AS m ON m.seq = l.seq
    LEFT JOIN {t}_trouble AS t ON t.seq = l.seq
    LEFT JOIN {t}_lane AS w ON w.seq = l.seq AND w.place = 1
WHERE NOT l.visible_at <=> COALESCE(t.visible_at, m.visible_at)
   OR l.laned <> (w.seq IS NOT NULL) OR l.laned <> (m.lane IS NOT NULL)
UNION ALL
SELECT h.seq, 0 FROM {t}_taken AS h
    LEFT JOIN {t} AS m ON m.seq = h.seq
    LEFT JOIN {t}_lease AS e ON e.no = h.lease
    LEFT JOIN {t}_lane AS w ON w.seq = h.seq AND w.place = 1
WHERE m.seq IS NULL OR h.done_at = 0 AND e.no IS NULL OR h.done_at <= 0 AND h.laned <> (w.seq IS NOT NULL)
UNION ALL
SELECT w.seq, 0 FROM {t}_lane AS w
    LEFT JOIN {t} AS m ON m.seq = w.seq
    LEFT JOIN {t}_trouble AS t ON t.seq = w.seq
    LEFT JOIN {t}_line AS l ON l.visible_at = COALESCE(t.visible_at, m.visible_at) AND l.seq = w.seq
    LEFT JOIN {t}_taken AS h ON h.seq = w.seq AND h.done_at <= 0
WHERE w.place < 9 AND (NOT m.lane <=> w.lane OR w.place = 1 AND l.seq IS NULL AND h.seq IS NULL
   OR w.place > 1 AND COALESCE(t.state, 0) <> 3)
UNION ALL
SELECT t.seq, 0 FROM {t}_trouble AS t LEFT JOIN {t} AS m ON m.seq = t.seq WHERE m.seq IS NULL;
