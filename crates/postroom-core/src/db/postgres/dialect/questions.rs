//! What operators ask of PostgreSQL.

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
            told!("f.no", "f.at", "f.error", "f.attempt", "{t}_failures AS f JOIN {t} AS m ON m.seq = f.seq"),
            $rest
        )
    };
}

pub(super) const QUESTIONS: QuestionTexts = QuestionTexts {
    keys: "SELECT source, message_id FROM {t} WHERE message_id = $1 OR source || '/' || message_id = $1 ORDER BY seq",
    newest: "SELECT (SELECT max(seq) FROM {t}), (SELECT created_at FROM {t} ORDER BY seq DESC LIMIT 1),
         (SELECT max(no) FROM {t}_failures),
         (SELECT max(processed_at) FROM {t} WHERE state = 2),
         (SELECT max(processed_at) FROM {t} WHERE state = 3),
         (SELECT max(processed_at) FROM {t} WHERE state = 4),
         (SELECT max(processed_at) FROM {t} WHERE state = 7)",
    activity: "SELECT count(*), max(last_attempt_at),
             (SELECT max(processed_at) FROM {t} WHERE state = 2),
             (SELECT at FROM {t}_failures ORDER BY no DESC LIMIT 1),
             (SELECT max(maintained_at) FROM {s}postroom_schema WHERE outbox = $3 AND inbox = $4)
         FROM (SELECT last_attempt_at FROM {t} WHERE state = 1 AND visible_at > $1 LIMIT $2) AS held",
    ahead: "SELECT count(*) FROM (
             SELECT 1 FROM {t} WHERE state = 0 AND visible_at <= $1 AND (visible_at < $1 OR seq < $2)
             ORDER BY visible_at LIMIT $3) AS line",
    arrived_rate:
        "SELECT count(*), min(at) FROM (SELECT created_at AS at FROM {t} ORDER BY seq DESC LIMIT $3) AS newest
         WHERE at >= $1 AND at <= $2",
    done_rate: "SELECT count(*), min(at) FROM (
             SELECT processed_at AS at FROM {t} WHERE state = 2 AND processed_at >= $1
             ORDER BY processed_at DESC LIMIT $3) AS done
         WHERE at <= $2",
    tally_ready: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {t} WHERE state = 0
             ORDER BY visible_at LIMIT $1) AS front
         GROUP BY topic, party",
    tally_dead: "SELECT topic, party, count(*) FROM (
             SELECT topic, {party} AS party FROM {t} WHERE state = 3 LIMIT $1) AS front
         GROUP BY topic, party",
    last_failures: "SELECT f.at, m.topic, f.attempt, f.error, f.code
         FROM (SELECT no AS number, seq, at, attempt, error, code FROM {t}_failures ORDER BY no DESC LIMIT $1) AS f
         LEFT JOIN {t} AS m ON m.seq = f.seq ORDER BY f.number DESC",
    arrived: concat!(
        told!("seq", "created_at", "last_error", "attempts", "{t}"),
        " WHERE seq > $1 ORDER BY seq LIMIT $2"
    ),
    arrived_rows: concat!(
        told!("seq", "created_at", "last_error", "attempts", "{t}"),
        " WHERE seq = ANY ($1::bigint[])"
    ),
    failed: failures!(" WHERE f.no > $1 ORDER BY f.no LIMIT $2"),
    failed_rows: failures!(" WHERE f.no = ANY ($1::bigint[])"),
    finished: concat!(
        told!("seq", "processed_at", "last_error", "attempts", "{t}"),
        " WHERE state = {state} AND processed_at >= $1 AND (processed_at > $1 OR seq > $2)
         ORDER BY processed_at, seq LIMIT $3"
    ),
    count_delivered: "SELECT count(*) FROM {t} WHERE state = 2 AND processed_at >= $1 AND {party} = $2",
    delivered_up_to: "SELECT max(seq) FROM (
             SELECT seq FROM {t} WHERE state = 2 AND processed_at >= $1 AND {party} = $2 AND seq > $3
             ORDER BY seq LIMIT $4) AS page",
};
