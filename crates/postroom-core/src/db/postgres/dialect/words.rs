//! Fragments that several statements share.

/// Makes the commit of this transaction wait for the disk, if it would not do so already. A commit that waits for
/// replicas still does. Nothing is set that is set already: the server would keep a record of it.
macro_rules! durable {
    () => {
        "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true)
             ELSE '' END"
    };
}

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}

/// Whether nothing can be written: on a standby, or where the default was set to read-only.
macro_rules! read_only {
    () => {
        "(current_setting('transaction_read_only') = 'on')::int"
    };
}

/// A claim in one statement, of the rows for which this condition holds too: out of the line, under a new lease.
macro_rules! claim {
    ($among:literal) => {
        claim!($among, "", "")
    };
    ($among:literal, $more:literal, $or:literal) => {
        concat!(
            "WITH durable AS MATERIALIZED (
                 SELECT {durable}
             ), line AS MATERIALIZED (
                 SELECT ctid AS place, seq, visible_at, claims, bytes FROM {t}_line
                 WHERE visible_at <= ?1 AND (visible_at, seq) >= (?5, ?8)
                   AND (expires_at IS NULL OR expires_at > ?1) AND ",
            $among,
            "
                 ORDER BY visible_at, seq LIMIT ?2 FOR UPDATE SKIP LOCKED
             ), chosen AS MATERIALIZED (
                 SELECT fitting.place
                 FROM durable, (SELECT place, row_number() OVER (ORDER BY visible_at, seq) AS number,
                                       sum(bytes) OVER (ORDER BY visible_at, seq) AS total FROM line) AS fitting
                 WHERE fitting.number <= ?7::bigint OR fitting.total <= ?6::bigint
             ), taken AS (
                 DELETE FROM {t}_line WHERE ctid = ANY (ARRAY(SELECT chosen.place FROM chosen))
                 RETURNING seq, visible_at AS at, claims + 1 AS claim_no, laned
             ), lease AS (
                 INSERT INTO {t}_lease (at, until, first_seq, last_seq, n)
                 SELECT ?1, ?4, min(seq), max(seq), count(*) FROM taken HAVING count(*) > 0 RETURNING no
             ), held AS (
                 INSERT INTO {t}_held (seq, lease, owner, claim_no, laned)
                 SELECT taken.seq, lease.no, ?3, taken.claim_no, taken.laned FROM taken, lease
             )
             SELECT {message}, at",
            $more,
            " FROM (
                 SELECT {wide}, taken.claim_no, taken.at
                 FROM taken CROSS JOIN LATERAL (
                     SELECT * FROM {t} AS x WHERE x.seq = taken.seq OFFSET 0) AS m{troubled}{seen}) AS claimed",
            $or
        )
    };
}

/// Takes a unique key.
pub(super) const TAKE: &str = "INSERT INTO {t}_take (name, id, until, until_done, replaces, at, look_at)
     VALUES (?1, ?2, ?3, ?4 <> 0, ?5 <> 0, ?6, ?7)";
