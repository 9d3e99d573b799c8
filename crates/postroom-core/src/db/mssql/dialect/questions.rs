//! What operators ask of SQL Server. A look at what goes on passes over rows that somebody else's transaction holds.

use crate::sql::questions::QuestionTexts;

/// What is told of a message that something happened to, but for what happened, and when. The server does not know how
/// many bytes a text is elsewhere: its characters are counted, a blank at the end too.
macro_rules! told {
    ($first:literal, $number:literal, $at:literal, $error:literal, $attempts:literal) => {
        concat!(
            "SELECT ",
            $first,
            $number,
            ", {identity}, topic, {party}, ",
            $at,
            ", ",
            $error,
            ", ",
            $attempts,
            ", CAST(LEN(payload + N'.') - 1 AS bigint), {shown} FROM "
        )
    };
}

macro_rules! failures {
    ($first:literal, $rest:literal) => {
        concat!(
            told!($first, "f.no", "f.at", "f.error", "f.attempt"),
            "{t}_failures AS f",
            past!(),
            " JOIN {t} AS m",
            past!(),
            " ON m.seq = f.seq",
            $rest
        )
    };
}

/// When the last message came to a finished state.
macro_rules! last_in {
    ($state:literal) => {
        concat!("(SELECT MAX(processed_at) FROM {t}", past!(), " WHERE state = ", $state, ")")
    };
}

pub(super) const QUESTIONS: QuestionTexts = QuestionTexts {
    // These and what was delivered are asked to be found, all of them: they wait for other people's transactions.
    keys: "SELECT source, message_id FROM {t}
         WHERE message_id = @P1 OR source + N'/' + message_id = @P1 ORDER BY seq",
    newest: concat!(
        "SELECT (SELECT MAX(seq) FROM {t}",
        past!(),
        "), (SELECT TOP (1) created_at FROM {t}",
        past!(),
        " ORDER BY seq DESC), (SELECT MAX(no) FROM {t}_failures",
        past!(),
        "), ",
        last_in!("2"),
        ", ",
        last_in!("3"),
        ", ",
        last_in!("4"),
        ", ",
        last_in!("7")
    ),
    activity: concat!(
        "SELECT COUNT_BIG(*), MAX(last_attempt_at), ",
        last_in!("2"),
        ", (SELECT TOP (1) at FROM {t}_failures",
        past!(),
        " ORDER BY no DESC), (SELECT MAX(maintained_at) FROM {s}postroom_schema",
        past!(),
        " WHERE outbox = @P3 AND inbox = @P4)
         FROM (SELECT TOP (@P2) last_attempt_at FROM {t}",
        past!(),
        " WHERE state = 1 AND visible_at > @P1) AS held"
    ),
    ahead: concat!(
        "SELECT COUNT_BIG(*) FROM (SELECT TOP (@P3) seq FROM {t}",
        past!(),
        " WHERE state = 0 AND visible_at <= @P1 AND (visible_at < @P1 OR seq < @P2) ORDER BY visible_at) AS line"
    ),
    arrived_rate: concat!(
        "SELECT COUNT_BIG(*), MIN(newest.at) FROM (SELECT TOP (@P3) created_at AS at FROM {t}",
        past!(),
        " ORDER BY seq DESC) AS newest WHERE newest.at >= @P1 AND newest.at <= @P2"
    ),
    done_rate: concat!(
        "SELECT COUNT_BIG(*), MIN(done.at) FROM (SELECT TOP (@P3) processed_at AS at FROM {t}",
        past!(),
        " WHERE state = 2 AND processed_at >= @P1 ORDER BY processed_at DESC) AS done WHERE done.at <= @P2"
    ),
    tally_ready: concat!(
        "SELECT front.topic, front.party, COUNT_BIG(*) FROM (SELECT TOP (@P1) topic, {party} AS party FROM {t}",
        past!(),
        " WHERE state = 0 ORDER BY visible_at) AS front GROUP BY front.topic, front.party"
    ),
    tally_dead: concat!(
        "SELECT front.topic, front.party, COUNT_BIG(*) FROM (SELECT TOP (@P1) topic, {party} AS party FROM {t}",
        past!(),
        " WHERE state = 3) AS front GROUP BY front.topic, front.party"
    ),
    last_failures: concat!(
        "SELECT f.at, m.topic, f.attempt, f.error, f.code
         FROM (SELECT TOP (@P1) no, seq, at, attempt, error, code FROM {t}_failures",
        past!(),
        " ORDER BY no DESC) AS f LEFT JOIN {t} AS m",
        past!(),
        " ON m.seq = f.seq ORDER BY f.no DESC"
    ),
    arrived: concat!(
        told!("TOP (@P2) ", "seq", "created_at", "last_error", "attempts"),
        "{t}",
        past!(),
        " WHERE seq > @P1 ORDER BY seq"
    ),
    arrived_rows: concat!(
        told!("", "seq", "created_at", "last_error", "attempts"),
        "{t}",
        past!(),
        " WHERE seq IN ({each|?|, })"
    ),
    failed: failures!("TOP (@P2) ", " WHERE f.no > @P1 ORDER BY f.no"),
    failed_rows: failures!("", " WHERE f.no IN ({each|?|, })"),
    finished: concat!(
        told!("TOP (@P3) ", "seq", "processed_at", "last_error", "attempts"),
        "{t}",
        past!(),
        " WHERE state = {state} AND processed_at >= @P1 AND (processed_at > @P1 OR seq > @P2)
         ORDER BY processed_at, seq"
    ),
    count_delivered: "SELECT COUNT_BIG(*) FROM {t} WHERE state = 2 AND processed_at >= @P1 AND {party} = @P2",
    delivered_up_to: "SELECT MAX(page.seq) FROM (
             SELECT TOP (@P4) seq FROM {t} WHERE state = 2 AND processed_at >= @P1 AND {party} = @P2 AND seq > @P3
             ORDER BY seq) AS page",
};
