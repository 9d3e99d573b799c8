//! The words of MySQL's statements, and of its schema.

/// What stands beside the columns of a message where it waits, is held, is done or has ended.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("v", "{t}_state"),
    ("views", include_str!("../schema/0001_views.sql")),
    ("procedures", include_str!("../schema/0001_procedures.sql")),
    ("lane_procedures", include_str!("../schema/0001_lanes.sql")),
    ("bytes", "CAST(octet_length(payload) AS SIGNED)"),
    ("lock", " FOR UPDATE"),
    ("of_key", " FOR UPDATE SKIP LOCKED"),
    ("beside", "\n    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{answered}"),
    ("answered", "\n    LEFT JOIN {t}_answer AS a ON a.seq = m.seq{seen}"),
    ("troubled", "\n    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{seen}"),
    ("place", "CASE WHEN {here} THEN CONCAT('=', topic) ELSE CONCAT('>', {destination}) END"),
    // Whether a claim covers a place: by the topic or by the destination. Each is a list of names between line breaks,
    // with a flag that says whether it means only these or all but these.
    (
        "among",
        "CASE LEFT(place, 1)
             WHEN '=' THEN (LOCATE({br}, place) = 0 AND LOCATE(CONCAT({br}, SUBSTR(place, 2), {br}), ?9) > 0) = ?10
             ELSE (LOCATE({br}, place) = 0 AND LOCATE(CONCAT({br}, SUBSTR(place, 2), {br}), ?11) > 0) = ?12 END",
    ),
    (
        "among_asked",
        "CASE LEFT(place, 1)
             WHEN '=' THEN (LOCATE({br}, place) = 0
                 AND LOCATE(CONCAT({br}, SUBSTR(place, 2), {br}), p_topics) > 0) = p_only_topics
             ELSE (LOCATE({br}, place) = 0
                 AND LOCATE(CONCAT({br}, SUBSTR(place, 2), {br}), p_destinations) > 0) = p_only_destinations END",
    ),
    // Where a claim starts. As two ranges, it passes nothing that earlier claims took, which may be there until it is
    // purged.
    ("from_asked", "visible_at <= p_now AND (visible_at > p_from OR visible_at = p_from AND seq >= p_from_seq)"),
    ("br", "CHAR(10 USING utf8mb4)"),
    ("leases", "{t}_lease AS e FORCE INDEX ({n}_lease_until)"),
    (
        "taken_and_line",
        "{t}_taken AS h FORCE INDEX ({n}_taken_by)
             STRAIGHT_JOIN {t}_line AS l FORCE INDEX (PRIMARY) ON l.visible_at = h.visible_at AND l.seq = h.seq",
    ),
    ("held_under", "{t}_taken AS h FORCE INDEX ({n}_taken_by) ON h.done_at = 0 AND h.lease = e.no"),
    // A message that is held under a lease. A subquery with a limit is not turned into a join of all that is held.
    ("held_of", "(SELECT h.seq FROM {t}_taken AS h WHERE h.done_at = 0 AND h.lease = e.no LIMIT 1)"),
    (
        "suspects",
        "{t}_trouble AS t FORCE INDEX ({n}_trouble_suspects)
             STRAIGHT_JOIN {t}_line AS l FORCE INDEX (PRIMARY) ON l.visible_at = t.visible_at AND l.seq = t.seq",
    ),
    // The leases that a procedure was given.
    (
        "asked",
        "JSON_TABLE(p_rows, '$[*]' COLUMNS (
             n BIGINT PATH '$.n', o CHAR(36) CHARACTER SET ascii PATH '$.o', c BIGINT PATH '$.c')) AS a
         STRAIGHT_JOIN {t}_taken AS h FORCE INDEX (PRIMARY) ON h.seq = a.n",
    ),
    ("asked_held", "h.done_at = 0 AND h.owner = UNHEX(REPLACE(a.o, '-', '')) AND h.claim_no = a.c"),
    // What lanes are to be looked at for: an ack, an arrival, or anything else.
    (
        "lane_work",
        "(EXISTS (SELECT 1 FROM {t}_taken WHERE done_at < 0) OR EXISTS (SELECT 1 FROM {t}_lane WHERE news = 1)
          OR EXISTS (SELECT 1 FROM {t}_lane_notes))",
    ),
    // Whether a message `x` of a lane is not acknowledged.
    ("has_not_ended", "NOT EXISTS (SELECT 1 FROM {t}_taken AS h WHERE h.seq = x.seq AND h.done_at < 0)"),
    ("last_done", "NULLIF((SELECT max(done_at) FROM {t}_taken), 0)"),
    // The messages in one state.
    ("in_0", "({of_line}) AS q"),
    ("in_lane", "({of_lane}) AS q"),
    ("in_1", "({of_held}) AS q"),
    ("in_2", "({of_done}) AS q"),
    ("in_3", "(SELECT {wide_ended}, {ended}, t.at AS processed_at, {of_trouble}) AS q"),
    ("in_4", "{in_3}"),
    ("in_7", "{in_3}"),
    (
        "of_line",
        "SELECT {wide}, 0 AS state, l.visible_at, l.claims AS claim_no, NULL AS owner, NULL AS locked_until,
             t.last_attempt_at, NULL AS processed_at, NULL AS processed_by, a.response
         FROM {t}_line AS l STRAIGHT_JOIN {t} AS m ON m.seq = l.seq{beside}",
    ),
    // What waits for its turn in a lane.
    (
        "of_lane",
        "SELECT {wide}, 0 AS state, w.at AS visible_at, COALESCE(t.claims, 0) AS claim_no, NULL AS owner,
             NULL AS locked_until, t.last_attempt_at, NULL AS processed_at, NULL AS processed_by, a.response
         FROM {t}_lane AS w STRAIGHT_JOIN {t} AS m ON m.seq = w.seq{beside}
         WHERE w.place = 0",
    ),
    (
        "of_held",
        "SELECT {wide}, 1 AS state, e.until AS visible_at, h.claim_no, h.owner, e.until AS locked_until,
             h.at AS last_attempt_at, NULL AS processed_at, NULL AS processed_by, a.response
         FROM {t}_taken AS h JOIN {t}_lease AS e ON e.no = h.lease JOIN {t} AS m ON m.seq = h.seq{beside}
         WHERE h.done_at = 0",
    ),
    (
        "of_done",
        "SELECT {wide}, 2 AS state, NULL AS visible_at, h.claim_no, NULL AS owner, NULL AS locked_until,
             h.at AS last_attempt_at, h.done_at AS processed_at, h.owner AS processed_by,
             COALESCE(h.response, a.response) AS response
         FROM {t}_taken AS h STRAIGHT_JOIN {t} AS m ON m.seq = h.seq{beside}
         WHERE h.done_at > 0 AND h.lease = 0",
    ),
    (
        "of_ended",
        "SELECT {wide_ended}, {ended}, CASE WHEN t.state IN (3, 4, 7) THEN t.at END AS processed_at, {of_trouble}",
    ),
    (
        "ended",
        "t.state, NULL AS visible_at, t.claims AS claim_no, NULL AS owner, NULL AS locked_until, t.last_attempt_at",
    ),
    (
        "of_trouble",
        "t.processed_by, a.response
         FROM {t}_trouble AS t STRAIGHT_JOIN {t} AS m ON m.seq = t.seq{answered}
         WHERE t.state > 2",
    ),
];
