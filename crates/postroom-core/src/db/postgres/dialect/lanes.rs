//! The statements of lanes: the look that decides whose turn it is, and what follows when a rule changed.
//!
//! Nobody waits here for anybody but for the row of a rate. What a look sees may be old, so it locks what it is going
//! to change and compares it with what it saw; a lane of which it cannot have everything keeps its notes, and is looked
//! at again. `crates/postroom-conformance/tests/lanes_model.rs` has the protocol.

use crate::sql::plans::RuledLanes;

// `start`: nothing is before it in its lane. `upto`: the last that can have its turn; those that died do not count,
// unless they block. If one died and only the newest is wanted, all are read.
// `becomes`: its new place; -1 leaves the lane.
// A row is locked by its place in the table. If somebody changed it meanwhile, what is locked is elsewhere, and
// that counts as not had. All of a lane is done or nothing. What was missed gets a new note, behind those of other
// lanes: otherwise lanes that somebody holds up would hold up all others.
pub(super) const LOOK: &str = "WITH mine AS MATERIALIZED (
         SELECT ctid AS at, id, lane, past FROM {t}_lane_notes
         ORDER BY id LIMIT ?2::bigint FOR UPDATE SKIP LOCKED
     ), ruled AS MATERIALIZED (
         SELECT n.lane, n.start, coalesce(r.places, g.places, 1) AS places,
             coalesce(r.on_dead, g.on_dead, 0) AS on_dead, coalesce(r.every, g.every) AS every,
             CASE WHEN r.every IS NULL THEN coalesce(g.burst, 1) ELSE coalesce(r.burst, 1) END AS burst,
             CASE WHEN r.every IS NULL THEN 'lanes' ELSE 'lane' END AS rate_kind,
             CASE WHEN r.every IS NULL THEN f.topic ELSE n.lane END AS rate_name
         FROM (SELECT lane, coalesce(max(past), 0) AS start FROM mine GROUP BY lane) AS n
             CROSS JOIN LATERAL (SELECT l.seq FROM {t}_lane AS l WHERE l.lane = n.lane AND l.no >= n.start
                                 ORDER BY l.no LIMIT 1) AS first
             LEFT JOIN LATERAL (SELECT x.topic FROM {t} AS x WHERE x.seq = first.seq OFFSET 0) AS f ON true
             LEFT JOIN LATERAL (SELECT * FROM {t}_rules AS x
                                WHERE x.kind = 'lane' AND x.name = n.lane OFFSET 0) AS r ON true
             LEFT JOIN LATERAL (SELECT * FROM {t}_rules AS x
                                WHERE x.kind = 'lanes' AND x.name = f.topic OFFSET 0) AS g ON true
         WHERE r.paused_at IS NULL AND g.paused_at IS NULL
     ), bounded AS MATERIALIZED (
         SELECT r.*, coalesce((
                 SELECT l.no FROM {t}_lane AS l
                 WHERE l.lane = r.lane AND l.no >= r.start AND (l.place < 2 OR r.on_dead = 0)
                 ORDER BY l.no LIMIT 1 OFFSET r.places - 1), 9223372036854775807) AS upto
         FROM ruled AS r
     ), superseded AS MATERIALIZED (
         SELECT b.*, CASE WHEN b.on_dead = 2 AND EXISTS (
                 SELECT 1 FROM {t}_lane AS l
                 WHERE l.lane = b.lane AND l.no BETWEEN b.start AND b.upto AND l.place > 1)
             THEN coalesce((SELECT l.no FROM {t}_lane AS l WHERE l.lane = b.lane AND l.no >= b.start AND l.place = 0
                            ORDER BY l.no DESC LIMIT 1), 0) END AS newest
         FROM bounded AS b
     ), seen AS MATERIALIZED (
         SELECT s.*, l.at, l.no, l.seq, l.place,
             bool_or(l.place > 1) OVER (PARTITION BY s.lane ORDER BY l.no) AS is_behind_dead,
             count(*) FILTER (WHERE l.place = 1) OVER in_lane AS taken
         FROM superseded AS s CROSS JOIN LATERAL (
             SELECT x.ctid AS at, x.no, x.seq, x.place FROM {t}_lane AS x
             WHERE x.lane = s.lane AND x.no >= s.start
               AND x.no <= CASE WHEN s.newest IS NULL THEN s.upto ELSE 9223372036854775807 END
             OFFSET 0) AS l
         WINDOW in_lane AS (PARTITION BY s.lane)
     ), plan AS MATERIALIZED (
         SELECT * FROM (
             SELECT seen.*, CASE
                 WHEN on_dead = 0 AND place = 2 THEN 3
                 WHEN on_dead = 0 AND is_behind_dead THEN NULL
                 WHEN on_dead <> 0 AND place > 1 THEN -1
                 WHEN place = 0 AND no < newest THEN -1
                 WHEN place = 0 AND (newest IS NULL OR taken < places) THEN 1 END AS becomes
             FROM seen) AS judged
         WHERE becomes IS NOT NULL
     ), asked AS MATERIALIZED (
         SELECT plan.*, bool_and(coalesce(now.at = plan.at, false)) OVER (PARTITION BY lane) AS is_had
         FROM plan LEFT JOIN LATERAL (
             SELECT l.ctid AS at FROM {t}_lane AS l WHERE l.ctid = plan.at AND l.place = plan.place
             FOR UPDATE SKIP LOCKED) AS now ON true
     ), missed AS MATERIALIZED (
         SELECT DISTINCT lane FROM asked WHERE NOT is_had
     ), turned AS (
         UPDATE {t}_lane SET place = CASE place WHEN 0 THEN 1 ELSE 3 END
         WHERE ctid = ANY (ARRAY(SELECT at FROM asked WHERE is_had AND becomes > 0 AND (places > 1 OR place > 1)))
     ), turned_alone AS (
         UPDATE {t}_lane SET place = 1, alone = true
         WHERE ctid = ANY (ARRAY(SELECT at FROM asked WHERE is_had AND becomes = 1 AND places = 1 AND place = 0))
     ), passed AS (
         DELETE FROM {t}_lane WHERE ctid = ANY (ARRAY(SELECT at FROM asked WHERE is_had AND becomes < 0))
         RETURNING seq, place
     ), dropped AS (
         INSERT INTO {t}_trouble AS t (seq, state, at, expires_at, dismissed_by, dismissed_why)
         SELECT m.seq, 7, ?1::bigint, m.expires_at, 'postroom', 'superseded in its lane'
         FROM passed CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = passed.seq OFFSET 0) AS m
         WHERE passed.place = 0
         ON CONFLICT (seq) DO UPDATE SET state = excluded.state, at = excluded.at, visible_at = NULL,
             dismissed_by = excluded.dismissed_by, dismissed_why = excluded.dismissed_why
     ), paced AS (
         INSERT INTO {t}_rates AS x (kind, name, tat)
         SELECT rate_kind, rate_name, ?1::bigint + max(every) * count(*)
         FROM asked WHERE is_had AND becomes = 1 AND every > 0 GROUP BY rate_kind, rate_name ORDER BY 1, 2
         ON CONFLICT (kind, name) DO UPDATE
         SET tat = greatest(x.tat, ?1::bigint) + (excluded.tat - ?1::bigint)
         RETURNING kind, name, tat
     ), timed AS MATERIALIZED (
         SELECT a.seq, {place} AS place,
             CASE WHEN t.seq IS NULL THEN m.expires_at ELSE t.expires_at END AS expires_at,
             coalesce(t.crashes, 0) AS crashes, coalesce(t.claims, 0) AS claims, octet_length(m.payload) AS bytes,
             coalesce(t.visible_at, m.visible_at) AS due,
             greatest(coalesce(t.visible_at, m.visible_at),
                      p.tat - a.every * (a.of_rate - a.number + a.burst)) AS visible_at
         FROM (SELECT asked.*, row_number() OVER (PARTITION BY rate_kind, rate_name ORDER BY no) AS number,
                   count(*) OVER (PARTITION BY rate_kind, rate_name) AS of_rate
               FROM asked WHERE is_had AND becomes = 1) AS a
             LEFT JOIN paced AS p ON a.every > 0 AND p.kind = a.rate_kind AND p.name = a.rate_name
             CROSS JOIN LATERAL (SELECT * FROM {t} AS x WHERE x.seq = a.seq OFFSET 0) AS m{troubled}
     ), lined AS (
         INSERT INTO {t}_line (visible_at, seq, place, expires_at, crashes, claims, bytes, laned)
         SELECT visible_at, seq, place, expires_at, least(crashes, 32767), claims, bytes, true FROM timed
     ), later AS (
         INSERT INTO {t}_trouble AS t (seq, visible_at, expires_at)
         SELECT seq, visible_at, expires_at FROM timed WHERE visible_at <> due
         ON CONFLICT (seq) DO UPDATE SET visible_at = excluded.visible_at
     ), gone AS (
         DELETE FROM {t}_lane_notes WHERE ctid = ANY (ARRAY(SELECT mine.at FROM mine))
     ), again AS (
         INSERT INTO {t}_lane_notes (past, lane)
         SELECT max(mine.past), mine.lane FROM mine JOIN missed ON missed.lane = mine.lane GROUP BY mine.lane
     )
     SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM timed), (SELECT count(*) FROM missed),
         ((SELECT count(*) FROM mine) >= ?2::bigint)::int::bigint, (SELECT min(visible_at) FROM timed)";

/// Each lane is changed in one step, and its note is committed with it.
pub(super) const RULED: RuledLanes = RuledLanes {
    lane: "SELECT {t}_lane_heads_back(?1::text)",
    topic: "SELECT {t}_lane_heads_back(first.lane) FROM {t}_lane AS first
         WHERE NOT EXISTS (SELECT 1 FROM {t}_lane AS o WHERE o.lane = first.lane AND o.no < first.no)
           AND EXISTS (SELECT 1 FROM {t} AS m WHERE m.seq = first.seq AND m.topic = ?1 OFFSET 0)",
};
