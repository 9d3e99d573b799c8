//! SQLite. Everything runs under `BEGIN IMMEDIATE`, so a row that was read has not changed when it is written.
//!
//! Numbers are given in the order of commits, so everything before a number, the front, has been looked at. What no
//! claim has looked at needs no row in the line. `{v}` is a view of all messages by their number or key: an update of
//! it moves a message. `{f}` is a view of the same messages by their state.

mod lanes;
mod steps;

use crate::sql::dialect::{Dialect, Fence, Identity, InboxSql, QueueSql};
use crate::sql::plans::{Arrive, Claim, Extend, Front, InsertMany, Lines, Runs};
use crate::sql::purge::{Old, PurgeTexts, Reclaim};
use crate::sql::questions::QuestionSql;
use crate::sql::shared;
use crate::sql::text::Places;
use crate::sql::unique::UniqueSql;

use steps::STEPS;

/// The places that have messages in the line, one after the other, without looking at the messages.
macro_rules! places {
    () => {
        "WITH RECURSIVE p (place) AS (
             SELECT min(place) FROM {t}_line WHERE crashes = 0
             UNION ALL
             SELECT (SELECT min(place) FROM {t}_line AS l WHERE l.crashes = 0 AND l.place > p.place)
             FROM p WHERE p.place IS NOT NULL)"
    };
}

pub(crate) const SQLITE: Dialect = Dialect {
    places: Places::Numbered("?"),
    casts: false,
    words: &[
        ("v", "{t}_state"),
        ("f", "{t}_by_state"),
        ("returning", " RETURNING 1"),
        ("no", "rowid"),
        ("beside", "\n    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{beside_ended}"),
        ("beside_ended", "\n    LEFT JOIN {t}_answer AS a ON a.seq = m.seq{seen}"),
        ("place", "CASE WHEN {here} THEN '=' || topic ELSE '>' || {destination} END"),
        // Whether a claim covers a place: by the topic or by the destination. Each is a list of names between line
        // breaks, with a flag that says whether it means only these or all but these.
        (
            "among",
            "CASE substr(place, 1, 1)
                 WHEN '=' THEN (instr(place, char(10)) = 0
                     AND instr(?9, char(10) || substr(place, 2) || char(10)) > 0) = ?10
                 ELSE (instr(place, char(10)) = 0
                     AND instr(?11, char(10) || substr(place, 2) || char(10)) > 0) = ?12 END",
        ),
        // How many messages of its lane may have the turn that no claim has looked at. None where somebody waits.
        (
            "lane_room",
            "CASE WHEN lane IS NULL THEN 0
                 ELSE coalesce((SELECT CASE WHEN b.place = 1 THEN {lane_rest} ELSE 0 END
                                FROM {t}_lane AS b WHERE b.lane = lane_of ORDER BY b.no DESC LIMIT 1),
                               {lane_places}) END",
        ),
        (
            "lane_rest",
            "(SELECT CASE WHEN sum(o.place <> 1) > 0 THEN 0
                  ELSE max(0, (SELECT r.places FROM {t}_lane_head AS r
                               WHERE r.seq = (SELECT i.seq FROM {t}_lane AS i WHERE i.lane = lane_of
                                              ORDER BY i.no LIMIT 1)) - count(*)) END
              FROM {t}_lane AS o WHERE o.lane = lane_of)",
        ),
        // In a lane that no claim has looked at.
        (
            "lane_places",
            "CASE WHEN NOT {has_lane_rules} THEN 1 ELSE (
                  SELECT CASE WHEN count(paused_at) > 0 THEN 0
                      ELSE coalesce(max(CASE kind WHEN 'lane' THEN places END), max(places), 1) END
                  FROM {t}_rules WHERE kind = 'lane' AND name = lane_of OR kind = 'lanes' AND name = topic) END",
        ),
        ("has_lane_rules", "EXISTS (SELECT 1 FROM {t}_rules WHERE kind IN ('lane', 'lanes'))"),
        // In triggers on lanes. Those of a lane that have the turn; the lane is that of the row of a look.
        (
            "first_of_lane",
            "SELECT f.seq FROM (SELECT seq, no FROM {t}_lane WHERE lane = OLD.lane ORDER BY no LIMIT OLD.places) AS f
             WHERE NOT EXISTS (SELECT 1 FROM {t}_lane AS d WHERE d.lane = OLD.lane AND d.no < f.no AND d.place = 3)",
        ),
        // What follows when a message dies there.
        (
            "policy_of_lane",
            "SELECT on_dead FROM {t}_lane_head
             WHERE seq = (SELECT i.seq FROM {t}_lane AS i WHERE i.lane = NEW.lane ORDER BY i.no LIMIT 1)",
        ),
        // Messages of a lane that no claim has looked at enter it: one comes back, or only the newest is to go on.
        (
            "enter_lane",
            "INSERT INTO {t}_lane (seq, lane, no, at, expires_at, place)
    SELECT m.seq, m.lane, m.seq << 24, m.visible_at, m.expires_at, 0
    FROM {t} AS m WHERE m.lane = NEW.lane AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1) AND m.born = 0
      AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = m.seq)
      AND (NEW.place < 0 OR 2 = ({policy_of_lane}));
    INSERT INTO {t}_trouble (seq, expires_at)
    SELECT m.seq, m.expires_at
    FROM {t} AS m WHERE m.lane = NEW.lane AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1) AND m.born = 0
      AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = m.seq)
      AND (NEW.place < 0 OR 2 = ({policy_of_lane}));",
        ),
        // The lanes that a rule is about.
        (
            "ruled_lanes",
            "SELECT NEW.name AS lane WHERE NEW.kind = 'lane'
             UNION ALL
             SELECT f.lane FROM {t}_lane AS f CROSS JOIN {t} AS m ON m.seq = f.seq
             WHERE NEW.kind = 'lanes' AND m.topic = NEW.name
               AND NOT EXISTS (SELECT 1 FROM {t}_lane AS o WHERE o.lane = f.lane AND o.no < f.no)",
        ),
        ("in_time", "(l.expires_at IS NULL OR l.expires_at > ?1)"),
        // The run that has a number, if the lease on it is still held.
        (
            "lease",
            "(SELECT from_seq, to_seq, no AS claim_no, owner, at, 1 AS state FROM {t}_held)
             WHERE from_seq = (SELECT max(from_seq) FROM {t}_held WHERE from_seq <= ?1) AND {fence}",
        ),
        // Messages of the lane `?2` that no claim has looked at, up to `?1`.
        (
            "fresh_up_to",
            "m.lane = ?2 AND m.born = 0 AND m.seq <= ?1 AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1)
               AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS x WHERE x.seq = m.seq)",
        ),
        // Messages that no claim has looked at, if they are behind the front. With the front in the query, SQLite would
        // begin there and not at the number that it is given.
        (
            "behind",
            "(SELECT {wide_fresh}, 0 AS claim_no, m.visible_at, m.lane AS lane_of
              FROM {t} AS m LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{seen} WHERE m.born = 0 AND t.seq IS NULL)",
        ),
        // How many messages no claim has looked at. Behind the first 100,000 they are counted by their numbers: a
        // duplicate that was not stored, and a message that was deleted, count as well.
        (
            "count_fresh",
            "(SELECT n + CASE WHEN n < 100000 THEN 0 ELSE (SELECT max(seq) FROM {t}) - last END
              FROM (SELECT count(*) AS n, max(seq) AS last
                    FROM (SELECT seq FROM {t}_fresh ORDER BY seq LIMIT 100000)))",
        ),
        // The rows that are past their time to live and wait. What expired before the mark was looked at,
        // unless the clock has gone back since.
        (
            "overdue",
            "SELECT seq, expires_at FROM (SELECT seq, expires_at FROM {t}_line WHERE expires_at <= ?1
                                          ORDER BY expires_at LIMIT ?2)
             UNION ALL
             SELECT seq, expires_at FROM (SELECT seq, expires_at FROM {t}_lane
                                          WHERE expires_at <= ?1 AND place = 0 ORDER BY expires_at LIMIT ?2)
             UNION ALL
             SELECT seq, expires_at FROM (
                 SELECT m.seq, m.expires_at FROM {t}_front AS f CROSS JOIN {t} AS m INDEXED BY {t}_expiring
                 WHERE f.one = 1 AND m.expires_at > CASE WHEN f.expired_to > ?1 THEN 0 ELSE f.expired_to END
                   AND m.expires_at <= ?1 AND m.seq >= f.next
                   AND m.born = 0 AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = m.seq)
                 ORDER BY m.expires_at LIMIT ?2)",
        ),
    ],
    schema: include_str!("schema/0001_init.sql"),
    schema_each: Some(include_str!("schema/0001_each.sql")),
    create_schema: None,
    secure: None,
    schema_drop: None,
    schema_version: 2,
    steps: &STEPS,
    fence: Fence { one: "state = 1 AND owner = ?2 AND claim_no = ?3", each: None },
    outbox: Identity::outbox("id, message_id, destination, NULL"),
    inbox: Identity::INBOX,
    // SQLite keeps a journal for each statement that sets off a trigger. It costs less for many rows than for each.
    insert_many: InsertMany::AllOrNone {
        sql: "INSERT INTO {t} ({new}) VALUES {each|({new_marks})|, }",
        sizes: &[100, 10],
    },
    claim: Claim::Front {
        line: Lines {
            all: "SELECT l.seq, l.visible_at, octet_length(m.payload)
                 FROM {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq
                 WHERE l.crashes = 0 AND l.visible_at <= ?1 AND {in_time} ORDER BY l.visible_at, l.seq LIMIT ?2",
            topics: concat!(
                places!(),
                " SELECT l.seq, l.visible_at, octet_length(m.payload)
                 FROM (SELECT place FROM p WHERE place IS NOT NULL AND {among}) AS w
                     CROSS JOIN {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq
                 WHERE l.seq IN (
                     SELECT i.seq FROM {t}_line AS i WHERE i.place = w.place AND i.crashes = 0 AND i.visible_at <= ?1
                       AND (i.expires_at IS NULL OR i.expires_at > ?1) ORDER BY i.visible_at, i.seq LIMIT ?2)
                 ORDER BY l.visible_at, l.seq LIMIT ?2"
            ),
            suspects: "SELECT l.seq, l.visible_at, octet_length(m.payload)
                 FROM {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq
                 WHERE l.crashes > 0 AND l.visible_at <= ?1 AND {in_time} AND {among}
                 ORDER BY l.visible_at, l.seq LIMIT ?2",
        },
        front: Front {
            at: "SELECT next FROM {t}_front WHERE one = 1",
            fresh: "SELECT {message}, visible_at, octet_length(payload), {lane_room}
             FROM {behind} WHERE seq >= ?1 ORDER BY seq",
            skim: "SELECT seq, topic, {destination}, lane FROM {behind} WHERE seq >= ?1 ORDER BY seq",
            take: "DELETE FROM {t}_line WHERE seq = ?1",
            pass: "INSERT INTO {t}_line (seq, place, visible_at, expires_at)
             SELECT seq, {place}, visible_at, expires_at FROM {t} WHERE seq = ?1",
            enter: "INSERT INTO {t}_lane (seq, lane, no, at, expires_at, place)
             SELECT seq, lane, seq << 24, visible_at, expires_at, ?3 FROM {t}
             WHERE seq BETWEEN ?1 AND ?2 AND lane IS NOT NULL",
            enter_up_to: "INSERT INTO {t}_lane (seq, lane, no, at, expires_at, place)
             SELECT m.seq, m.lane, m.seq << 24, m.visible_at, m.expires_at, 0 FROM {t} AS m WHERE {fresh_up_to}
               AND NOT EXISTS (SELECT 1 FROM {t}_lane AS w WHERE w.seq = m.seq)",
            mark_up_to: "INSERT INTO {t}_trouble (seq, expires_at) SELECT m.seq, m.expires_at FROM {t} AS m
             WHERE {fresh_up_to} AND EXISTS (SELECT 1 FROM {t}_lane AS w WHERE w.seq = m.seq AND w.place = 0)",
            look: "UPDATE {t}_lane_head SET places = places
             WHERE seq = (SELECT seq FROM {t}_lane WHERE lane = ?2 ORDER BY no LIMIT 1)",
            mark: "INSERT INTO {t}_trouble (seq, expires_at) SELECT seq, expires_at FROM {t} WHERE seq = ?1
             ON CONFLICT (seq) DO NOTHING",
            is_marked: "SELECT 1 FROM {t}_trouble WHERE seq = ?1",
            advance: "UPDATE {t}_front SET next = coalesce(?1, (SELECT max(seq) FROM {t}) + 1)
             WHERE one = 1 AND next < coalesce(?1, (SELECT max(seq) FROM {t}) + 1)",
            catch_up: "UPDATE {t}_front
             SET next = coalesce((SELECT seq FROM {t}_fresh ORDER BY seq LIMIT 1), (SELECT max(seq) FROM {t}) + 1)
             WHERE one = 1
               AND next < coalesce((SELECT seq FROM {t}_fresh ORDER BY seq LIMIT 1), (SELECT max(seq) FROM {t}) + 1)",
            expired: "UPDATE {t}_front SET expired_to = ?1
             WHERE one = 1 AND (expired_to > ?1
                 OR EXISTS (SELECT 1 FROM {t} WHERE expires_at > expired_to AND expires_at <= ?1))",
            next: "SELECT min(at) FROM (
                 SELECT min(visible_at) AS at FROM {t}_line WHERE crashes = 0
                 UNION ALL SELECT min(until) FROM {t}_held)",
        },
    },
    many: None,
    ack_ranges: None,
    extend: Extend::Runs {
        run: "UPDATE {t}_held SET until = ?5 WHERE from_seq = ?1 AND to_seq = ?2 AND owner = ?3 AND no = ?4",
        one: "UPDATE {v} SET locked_until = ?4, visible_at = ?4 WHERE seq = ?1 AND {fence} RETURNING 1",
    },
    runs: Some(Runs {
        hold: "INSERT INTO {t}_held (from_seq, to_seq, no, owner, at, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        ack: "INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at)
             SELECT ?1, ?6, claim_no, ?5, ?2, at
             FROM {lease} AND to_seq >= ?6",
        answered: "INSERT INTO {t}_answer (seq, response) VALUES (?1, ?2)
             ON CONFLICT (seq) DO UPDATE SET response = excluded.response",
        done: "INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at, response)
             VALUES (last_insert_rowid(), last_insert_rowid(), 1, ?1, ?2, ?1, ?3)",
    }),
    lanes: None,
    ruled_lanes: None,
    checks_saves: false,
    queue: QueueSql {
        topics_next: concat!(
            places!(),
            " SELECT min(at) FROM (
                 SELECT min((SELECT min(visible_at) FROM {t}_line AS l WHERE l.place = p.place AND l.crashes = 0)) AS at
                 FROM p WHERE p.place IS NOT NULL AND {among}
                 UNION ALL SELECT min(until) FROM {t}_held)"
        ),
        suspects_next: "SELECT visible_at FROM {t}_line AS l WHERE crashes > 0 AND {among} ORDER BY visible_at LIMIT 1",
        ack: "INSERT INTO {t}_done (from_seq, to_seq, no, at, by, claimed_at, response)
             SELECT ?1, ?1, claim_no, ?5, ?2, at, ?4
             FROM {lease} AND to_seq >= ?1",
        held: "SELECT to_seq FROM {lease} AND to_seq >= ?1",
        load_claimed: "SELECT {record} FROM {v} WHERE seq IN (
                 SELECT m.seq FROM {t}_held AS h CROSS JOIN {t} AS m ON m.seq BETWEEN h.from_seq AND h.to_seq
                 WHERE h.until = ?1 AND h.owner = ?2) ORDER BY seq",
        load_over: "SELECT {bare} FROM {v} WHERE seq IN (
                 SELECT m.seq FROM (SELECT from_seq, to_seq FROM {t}_held WHERE until <= ?1
                                    ORDER BY until LIMIT ?2) AS h
                     CROSS JOIN {t} AS m ON m.seq BETWEEN h.from_seq AND h.to_seq LIMIT ?2)
             ORDER BY visible_at, seq",
        load_expired: "SELECT {bare} FROM {v} WHERE seq IN (SELECT seq FROM ({overdue}))
             ORDER BY expires_at, seq LIMIT ?2",
        count_overdue: "SELECT count(*) FROM (SELECT 1 FROM ({overdue}) LIMIT ?2)",
        expire_dead: "UPDATE {v} SET state = 4, processed_at = ?1
             WHERE seq IN (SELECT seq FROM {t}_trouble WHERE state = 3 AND expires_at <= ?1
                           ORDER BY expires_at, seq LIMIT ?2) RETURNING 1",
        count_purgeable: "SELECT min(?2, (SELECT coalesce(sum(to_seq - from_seq + 1), 0) FROM {t}_done WHERE at < ?1)
                 + (SELECT count(*) FROM {t}_trouble WHERE state = 2 AND at < ?1))",
        count: "SELECT 0, {count_fresh} + (SELECT count(*) FROM {t}_line)
                 + (SELECT count(*) FROM {t}_lane WHERE place = 0)
             UNION ALL SELECT 1, coalesce(sum(to_seq - from_seq + 1), 0) FROM {t}_held
             UNION ALL SELECT 2, coalesce(sum(to_seq - from_seq + 1), 0) FROM {t}_done
             UNION ALL
             SELECT state, count(*) FROM {t}_trouble WHERE state > 0 AND state IN (2, 3, 4, 7) GROUP BY state",
        count_waiting: "SELECT {count_fresh} + (SELECT count(*) FROM {t}_line)
             + (SELECT count(*) FROM {t}_lane WHERE place = 0)
             + (SELECT coalesce(sum(to_seq - from_seq + 1), 0) FROM {t}_held)",
        oldest: "SELECT created_at, visible_at FROM (
                 SELECT * FROM (SELECT created_at, visible_at, seq FROM {t}_fresh ORDER BY seq LIMIT 1000)
                 UNION ALL
                 SELECT * FROM (SELECT m.created_at, l.visible_at, l.seq
                                FROM {t}_line AS l CROSS JOIN {t} AS m ON m.seq = l.seq
                                ORDER BY l.visible_at, l.seq LIMIT 1)
                 UNION ALL
                 SELECT * FROM (SELECT m.created_at, w.at, w.seq FROM {t}_lane AS w CROSS JOIN {t} AS m ON m.seq = w.seq
                                WHERE w.place = 0 ORDER BY w.at, w.seq LIMIT 1))
             ORDER BY visible_at, seq LIMIT 1",
        // Fresh messages have no row in the lane yet, but their place there is known.
        lane_rows: "SELECT no, seq FROM (
                 SELECT no, seq FROM {t}_lane WHERE lane = ?1 AND place IN (0, 1)
                 UNION ALL
                 SELECT m.seq << 24, m.seq FROM {t}_front AS f CROSS JOIN {t} AS m
                 WHERE f.one = 1 AND m.seq >= f.next AND m.lane = ?1 AND m.born = 0
                   AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = m.seq))
             WHERE no > ?2 ORDER BY no LIMIT ?3",
        ..shared::QUEUE
    },
    in_state: shared::IN_STATE,
    purge: PurgeTexts {
        rows: "DELETE FROM {t} WHERE seq IN ({old})",
        // New messages use free pages again, so some are kept. Files of others may not allow it.
        reclaim: Some(Reclaim {
            is_due: "SELECT f.freelist_count > max(1000, p.page_count / 10) AND v.auto_vacuum = 2
                 FROM pragma_freelist_count AS f, pragma_page_count AS p, pragma_auto_vacuum AS v",
            step: "PRAGMA incremental_vacuum(500)",
        }),
        // A run may have more messages than are deleted at once. They come in the order of the runs.
        ended: Old {
            rows: "SELECT seq FROM (
                     SELECT * FROM (SELECT m.seq, d.at FROM (SELECT from_seq, to_seq, at FROM {t}_done
                                                             WHERE {state} = 2 AND at < ?1 ORDER BY at LIMIT ?2) AS d
                                    CROSS JOIN {t} AS m ON m.seq BETWEEN d.from_seq AND d.to_seq LIMIT ?2)
                     UNION ALL
                     SELECT * FROM (SELECT seq, at FROM {t}_trouble WHERE state > 0 AND state = {state} AND at < ?1
                                    ORDER BY at, seq LIMIT ?2))
                 ORDER BY at, seq LIMIT ?2",
            age: "",
        },
        seen: Old {
            rows: "SELECT seq FROM {t}_trouble WHERE state > 0 AND state = {state} AND at < ?1
                 ORDER BY at, seq LIMIT ?2",
            age: "",
        },
    },
    questions: QuestionSql {
        newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
             (SELECT max(rowid) FROM {t}_failures),
             (SELECT max(at) FROM (SELECT max(at) AS at FROM {t}_done
                  UNION ALL SELECT max(at) FROM {t}_trouble WHERE state = 2)),
             (SELECT max(at) FROM {t}_trouble WHERE state = 3), (SELECT max(at) FROM {t}_trouble WHERE state = 4),
             (SELECT max(at) FROM {t}_trouble WHERE state = 7)",
        activity: "SELECT coalesce(sum(n), 0), max(last_attempt_at),
                 (SELECT max(at) FROM (SELECT max(at) AS at FROM {t}_done
                      UNION ALL SELECT max(at) FROM {t}_trouble WHERE state = 2)),
                 (SELECT at FROM {t}_failures ORDER BY rowid DESC LIMIT 1),
                 (SELECT max(maintained_at) FROM postroom_schema WHERE outbox = ?3 AND inbox = ?4)
             FROM (SELECT to_seq - from_seq + 1 AS n, at AS last_attempt_at FROM {t}_held WHERE until > ?1 LIMIT ?2)",
        ahead: "SELECT min(?3, (SELECT count(*) FROM {t}_line
                      WHERE crashes = 0 AND visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2))
                 + (SELECT count(*) FROM {t}_line
                    WHERE crashes > 0 AND visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2))
                 + (SELECT count(*) FROM (SELECT visible_at, seq FROM {t}_fresh ORDER BY seq LIMIT ?3)
                    WHERE visible_at < ?1 OR visible_at = ?1 AND seq < ?2))",
        done_rate: "SELECT coalesce(sum(n), 0), min(at) FROM (
                 SELECT at, to_seq - from_seq + 1 AS n FROM {t}_done WHERE at >= ?1
                 UNION ALL SELECT at, 1 FROM {t}_trouble WHERE state > 0 AND state = 2 AND at >= ?1
                 ORDER BY at DESC LIMIT ?3) AS done
             WHERE at <= ?2",
        tally_ready: "SELECT topic, party, count(*) FROM (
                 SELECT topic, {party} AS party FROM {f} WHERE state = 0 LIMIT ?1) AS front
             GROUP BY topic, party",
        ..lanes::QUESTIONS
    },
    outbox_insert: "INSERT INTO {t} ({new}) VALUES ({new_values}) ON CONFLICT (id) DO NOTHING",
    outbox_by_message: shared::OUTBOX_BY_MESSAGE,
    unique: Some(UniqueSql::new(
        "INSERT INTO {t}_unique (name, id, until, until_done, replaces, at, look_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (name) DO UPDATE SET id = excluded.id, until = excluded.until, until_done = excluded.until_done,
             replaces = excluded.replaces, at = excluded.at, look_at = excluded.look_at",
    )),
    // OR FAIL: nothing is written before it fails, so SQLite need not keep a journal to undo it. The outbox does not
    // gain by it, because the functions in its trigger may fail, too.
    inbox_alone: InboxSql {
        insert: "INSERT OR FAIL INTO {t} ({new}, born) VALUES ({new_values}, 0)
             ON CONFLICT (source, message_id) DO NOTHING",
        accept: "INSERT INTO {t} ({new}, born) VALUES ({new_values}, 0)
             ON CONFLICT (source, message_id) DO UPDATE SET {accepted_excluded}
             WHERE EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = {t}.seq AND t.state = 5)",
        handled: "INSERT OR FAIL INTO {t} ({new}, born) VALUES ({new_values}, 2)",
        see: "INSERT INTO {t} (source, message_id, hash, created_at, last_seen_at, born) VALUES (?1, ?2, ?3, ?4, ?4, 5)
             ON CONFLICT (source, message_id) DO NOTHING",
        touch: "INSERT INTO {t}_seen (seq, at, hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (seq) DO UPDATE SET at = excluded.at, hash = coalesce(hash, excluded.hash)",
        count: "SELECT state, count(*) FROM {t}_trouble WHERE state > 0 AND state IN (5, 6) GROUP BY state",
        ..shared::INBOX
    },
    accept_seen: None,
    arrive: Arrive::Answered(
        "INSERT OR FAIL INTO {t} ({new}, born) VALUES ({new_values}, 1)
         ON CONFLICT (source, message_id) DO NOTHING RETURNING 1, seq",
    ),
    idle_poll: None,
};

/// For a test only: a settle that does not check who holds the row. It takes the same values.
#[cfg(feature = "testing")]
pub(crate) const NO_FENCE: Fence = Fence { one: "(?2 IS NOT NULL OR ?3 IS NOT NULL)", each: None };
