//! Pieces that several statements share.

/// Makes the commit of this transaction wait for the disk, if nothing else does; what waits for replicas stays so.
macro_rules! durable {
    () => {
        "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
             ELSE current_setting('synchronous_commit') END, true)"
    };
}

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}

/// Rows in one finished state. The state is in the text: the index of that state alone serves no other.
macro_rules! list_in {
    ($state:literal) => {
        concat!(
            "SELECT {record} FROM {t} WHERE state = ",
            $state,
            " AND ($1 IS NULL OR state = $1)
               AND ($2 IS NULL OR topic = $2) AND ($3 IS NULL OR {party} = $3)
               AND ($4 IS NULL OR processed_at >= $4) AND seq > $5 AND seq <= $7
             ORDER BY seq LIMIT $6"
        )
    };
}

/// The same, without what they hold.
macro_rules! brief_in {
    ($state:literal) => {
        concat!(
            "SELECT {brief} FROM {t} WHERE state = ",
            $state,
            " AND ($1 IS NULL OR state = $1)
               AND ($2 IS NULL OR topic = $2) AND ($3 IS NULL OR {party} = $3)
               AND ($4 IS NULL OR processed_at >= $4) AND seq > $5 AND seq <= $7
             ORDER BY seq LIMIT $6"
        )
    };
}

/// The number of one row in a finished state, so many places behind the newest.
macro_rules! nth_newest_in {
    ($state:literal) => {
        concat!(
            "SELECT seq FROM {t} WHERE state = ",
            $state,
            " AND ($1 IS NULL OR state = $1) ORDER BY seq DESC LIMIT 1 OFFSET $2"
        )
    };
}

/// Rows in one finished state from a number on, counted by what they ended with.
macro_rules! groups_in {
    ($state:literal) => {
        concat!(
            "SELECT topic, party, error, count(*), min(processed_at), max(processed_at), min(seq)
             FROM (SELECT topic, {party} AS party, substr(last_error, 1, {error_chars}) AS error, processed_at, seq
                   FROM {t} WHERE state = ",
            $state,
            " AND ($1 IS NULL OR state = $1) AND seq >= $2) AS newest
             GROUP BY topic, party, error"
        )
    };
}

/// Whether nothing can be written: on a standby, or where the default was set so.
macro_rules! read_only {
    () => {
        "(current_setting('transaction_read_only') = 'on')::int"
    };
}

/// Whether a row is among those of a claim: by its topic when it is handled here, by its destination otherwise. Each is
/// a list of names between line breaks, and whether these alone are meant or all but these.
macro_rules! among {
    ($topics:literal, $only_topics:literal, $destinations:literal, $only_destinations:literal) => {
        concat!(
            " AND CASE WHEN {here} THEN (strpos(topic, chr(10)) = 0 AND strpos(",
            $topics,
            "::text, chr(10) || topic || chr(10)) > 0)::int = ",
            $only_topics,
            "::bigint
                 ELSE (strpos({destination}, chr(10)) = 0 AND strpos(",
            $destinations,
            "::text, chr(10) || {destination} || chr(10)) > 0)::int = ",
            $only_destinations,
            "::bigint END"
        )
    };
}

/// A claim in one statement, of the rows for which this holds too.
macro_rules! claim {
    ($among:expr) => {
        concat!(
            "WITH durable AS MATERIALIZED (
                 SELECT ",
            durable!(),
            "
             ), line AS MATERIALIZED (
                 SELECT seq, visible_at, octet_length(payload) AS bytes FROM {t}
                 WHERE state = 0 AND visible_at <= $1 AND visible_at >= $5 AND (expires_at IS NULL OR expires_at > $1)",
            $among,
            "
                 ORDER BY visible_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED
             ), chosen AS MATERIALIZED (
                 SELECT fitting.seq AS n, fitting.visible_at AS at
                 FROM durable, (SELECT seq, visible_at, row_number() OVER (ORDER BY visible_at, seq) AS place,
                                       sum(bytes) OVER (ORDER BY visible_at, seq) AS total FROM line) AS fitting
                 WHERE fitting.place <= $7::bigint OR fitting.total <= $6::bigint
             )
             UPDATE {t}
             SET state = 1, owner = $3, locked_until = $4, visible_at = $4, claim_no = claim_no + 1,
                 last_attempt_at = $1
             FROM chosen WHERE seq = chosen.n
             RETURNING {message}, chosen.at"
    )
    };
}
