//! What operators ask of SQLite.

use crate::sql::questions::QuestionTexts;

/// What is told of a message that something happened to, but for what happened, and when.
macro_rules! told {
    ($number:literal, $at:literal, $error:literal, $attempts:literal, $from:literal) => {
        concat!(
            "SELECT ",
            $number,
            ", {identity}, topic, {party}, ",
            $at,
            ", ",
            $error,
            ", ",
            $attempts,
            ", octet_length(payload), {shown} FROM ",
            $from
        )
    };
}

macro_rules! failures {
    ($rest:literal) => {
        concat!(
            told!("f.rowid", "f.at", "f.error", "f.attempt", "{t}_failures AS f JOIN {t} AS m ON m.seq = f.seq"),
            $rest
        )
    };
}

pub(super) const QUESTIONS: QuestionTexts = QuestionTexts {
    keys: "SELECT source, message_id FROM {t} WHERE message_id = ?1 OR source || '/' || message_id = ?1 ORDER BY seq",
    newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
         (SELECT max(rowid) FROM {t}_failures),
         (SELECT max(processed_at) FROM {t} WHERE state = 2 AND processed_at IS NOT NULL),
         (SELECT max(processed_at) FROM {t} WHERE state = 3 AND processed_at IS NOT NULL),
         (SELECT max(processed_at) FROM {t} WHERE state = 4 AND processed_at IS NOT NULL),
         (SELECT max(processed_at) FROM {t} WHERE state = 7 AND processed_at IS NOT NULL)",
    activity: "SELECT count(*), max(last_attempt_at),
             (SELECT max(processed_at) FROM {t} WHERE state = 2 AND processed_at IS NOT NULL),
             (SELECT at FROM {t}_failures ORDER BY rowid DESC LIMIT 1),
             (SELECT max(maintained_at) FROM postroom_schema WHERE outbox = ?3 AND inbox = ?4)
         FROM (SELECT last_attempt_at FROM {t} WHERE state = 1 AND visible_at > ?1 LIMIT ?2)",
    ahead: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 0 AND visible_at <= ?1 AND (visible_at < ?1 OR seq < ?2)
             ORDER BY visible_at LIMIT ?3)",
    arrived_rate: "SELECT count(*), min(at) FROM (SELECT created_at AS at FROM {t} ORDER BY seq DESC LIMIT ?3)
         WHERE at >= ?1 AND at <= ?2",
    done_rate: "SELECT count(*), min(at) FROM (
             SELECT processed_at AS at FROM {t} WHERE state = 2 AND processed_at >= ?1
             ORDER BY processed_at DESC LIMIT ?3)
         WHERE at <= ?2",
    tally_ready: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {t} WHERE state = 0 AND visible_at IS NOT NULL
             ORDER BY visible_at LIMIT ?1)
         GROUP BY topic, party",
    tally_dead: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {t} WHERE state = 3 AND processed_at IS NOT NULL LIMIT ?1)
         GROUP BY topic, party",
    last_failures: "SELECT f.at, m.topic, f.attempt, f.error, f.code
         FROM (SELECT rowid AS number, seq, at, attempt, error, code FROM {t}_failures
               ORDER BY rowid DESC LIMIT ?1) AS f
         LEFT JOIN {t} AS m ON m.seq = f.seq ORDER BY f.number DESC",
    arrived: concat!(
        told!("seq", "created_at", "last_error", "attempts", "{t}"),
        " WHERE seq > ?1 ORDER BY seq LIMIT ?2"
    ),
    arrived_rows: concat!(told!("seq", "created_at", "last_error", "attempts", "{t}"), " WHERE seq = ?1"),
    failed: failures!(" WHERE f.rowid > ?1 ORDER BY f.rowid LIMIT ?2"),
    failed_rows: failures!(" WHERE f.rowid = ?1"),
    finished: concat!(
        told!("seq", "processed_at", "last_error", "attempts", "{t}"),
        " WHERE state = {state} AND processed_at >= ?1 AND (processed_at > ?1 OR seq > ?2)
         ORDER BY processed_at, seq LIMIT ?3"
    ),
    count_delivered: "SELECT count(*) FROM {t} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2",
    delivered_up_to: "SELECT max(seq) FROM (
             SELECT seq FROM {t} WHERE state = 2 AND processed_at >= ?1 AND {party} = ?2 AND seq > ?3
             ORDER BY seq LIMIT ?4)",
};
