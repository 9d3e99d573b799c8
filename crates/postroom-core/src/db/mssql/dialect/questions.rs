//! What operators ask of SQL Server. A query about current work skips rows that another transaction has locked. The
//! server cannot say how many bytes a text has in another encoding, so it counts characters, including a trailing
//! blank.

use crate::sql::questions::QuestionSql;
use crate::sql::shared;

/// It keeps no lanes, and is not asked about them.
const NO_LANES: &str = "SELECT 1 WHERE 1 = 0";

pub(super) const QUESTIONS: QuestionSql = QuestionSql {
    // These queries, and the one for delivered messages, must find every row, so they wait for other transactions.
    keys: "SELECT source, message_id FROM {t} WHERE message_id = ?1 OR source + N'/' + message_id = ?1 ORDER BY seq",
    newest: "SELECT (SELECT MAX(seq) FROM {t}{past}), (SELECT TOP (1) created_at FROM {t}{past} ORDER BY seq DESC),
         (SELECT MAX(no) FROM {t}_failures{past}), {last_done}, ({last_ended} 3), ({last_ended} 4), ({last_ended} 7)",
    activity: "SELECT COUNT_BIG(*), MAX(held.at), {last_done},
             (SELECT TOP (1) at FROM {t}_failures{past} ORDER BY no DESC),
             (SELECT MAX(maintained_at) FROM {s}postroom_schema{past} WHERE outbox = ?3 AND inbox = ?4)
         FROM (SELECT TOP (?2) at FROM {t}_taken{past} WHERE done_at = 0 AND until > ?1) AS held",
    ahead: "SELECT COUNT_BIG(*) FROM (
             SELECT TOP (?3) seq FROM {t}_line{past}
             WHERE visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2) ORDER BY visible_at) AS line",
    arrived_rate: "SELECT COUNT_BIG(*), MIN(newest.at) FROM (
             SELECT TOP (?3) created_at AS at FROM {t}{past} ORDER BY seq DESC) AS newest
         WHERE newest.at >= ?1 AND newest.at <= ?2",
    done_rate: "SELECT COUNT_BIG(*), MIN(done.at) FROM (
             SELECT TOP (?3) done_at AS at FROM {t}_taken{past}
             WHERE done_at > 0 AND done_at >= ?1 ORDER BY done_at DESC) AS done
         WHERE done.at <= ?2",
    tally_ready: "SELECT front.topic, front.party, COUNT_BIG(*) FROM (
             SELECT TOP (?1) topic, {party} AS party FROM {f}{past} WHERE state = 0 ORDER BY visible_at) AS front
         GROUP BY front.topic, front.party",
    tally_dead: "SELECT front.topic, front.party, COUNT_BIG(*) FROM (
             SELECT TOP (?1) topic, {party} AS party FROM {f}{past} WHERE state = 3) AS front
         GROUP BY front.topic, front.party",
    last_failures: "SELECT f.at, m.topic, f.attempt, f.error, f.code
         FROM (SELECT TOP (?1) no, seq, at, attempt, error, code FROM {t}_failures{past} ORDER BY no DESC) AS f
         LEFT JOIN {t} AS m{past} ON m.seq = f.seq ORDER BY f.no DESC",
    arrived: "SELECT TOP (?2) seq, {told}, created_at, last_error, attempts, {bytes}, {shown} FROM {v}{past}
         WHERE seq > ?1 ORDER BY seq",
    arrived_rows: "SELECT seq, {told}, created_at, last_error, attempts, {bytes}, {shown} FROM {v}{past}
         WHERE seq{by_number}",
    failed: "SELECT TOP (?2) f.no, {told}, f.at, f.error, f.attempt, {bytes}, {shown} FROM {failures}
         WHERE f.no > ?1 ORDER BY f.no",
    failed_rows: "SELECT f.no, {told}, f.at, f.error, f.attempt, {bytes}, {shown} FROM {failures}
         WHERE f.no{by_number}",
    finished: "SELECT TOP (?3) seq, {told}, processed_at, last_error, attempts, {bytes}, {shown} FROM {f}{past}
         WHERE state = {state} AND processed_at >= ?1 AND (processed_at > ?1 OR seq > ?2)
         ORDER BY processed_at, seq",
    count_delivered: "SELECT COUNT_BIG(*) FROM {f} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2",
    delivered_up_to: "SELECT MAX(page.seq) FROM (
             SELECT TOP (?4) seq FROM {f} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2 AND seq > ?3
             ORDER BY seq) AS page",
    lanes_at_ends: NO_LANES,
    lanes_of_dead: NO_LANES,
    lane_depth: NO_LANES,
    lane_row: NO_LANES,
    lane_ahead: NO_LANES,
    ..shared::QUESTIONS
};
