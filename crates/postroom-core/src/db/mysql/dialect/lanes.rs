//! What operators ask about lanes. A message that is acknowledged keeps its row until a look, and does not count. Names
//! are bytes here, and the rows of the locks have the name '' and negative numbers.

use crate::sql::questions::QuestionSql;
use crate::sql::shared;

/// Messages of lanes from one end: `ASC` or `DESC`.
macro_rules! from_end {
    ($way:literal) => {
        concat!(
            "(SELECT x.seq, x.lane FROM {t}_lane AS x FORCE INDEX ({n}_lane_seq)
              WHERE x.seq > 0 AND {has_not_ended} ORDER BY x.seq ",
            $way,
            " LIMIT ?1)"
        )
    };
}

pub(super) const QUESTIONS: QuestionSql = QuestionSql {
    lanes_at_ends: concat!(
        "SELECT CONVERT(ends.lane USING utf8mb4) FROM (",
        from_end!("ASC"),
        " UNION ALL ",
        from_end!("DESC"),
        ") AS ends"
    ),
    lanes_of_dead: "SELECT CONVERT(l.lane USING utf8mb4), d.at, d.seq
         FROM (SELECT seq, at FROM {t}_trouble FORCE INDEX ({n}_trouble_old) WHERE state = 3
               ORDER BY at, seq LIMIT ?1) AS d
             STRAIGHT_JOIN {t}_lane AS l FORCE INDEX ({n}_lane_seq) ON l.seq = d.seq
         WHERE l.place > 1",
    lane_depth: "SELECT (SELECT count(*) FROM (
                 SELECT 1 AS one FROM {t}_lane AS x WHERE x.lane = CAST(?1 AS BINARY) AND {has_not_ended}
                 LIMIT ?2) AS counted),
             (SELECT x.seq FROM {t}_lane AS x WHERE x.lane = CAST(?1 AS BINARY) AND {has_not_ended}
              ORDER BY x.no LIMIT 1)",
    lane_row: "SELECT CONVERT(x.lane USING utf8mb4), x.no FROM {t}_lane AS x WHERE x.seq = ?1 AND {has_not_ended}",
    lane_ahead: "SELECT count(*) FROM (
             SELECT 1 AS one FROM {t}_lane AS x WHERE x.lane = CAST(?1 AS BINARY) AND x.no < ?3 AND {has_not_ended}
             LIMIT ?2) AS counted",
    ..shared::QUESTIONS
};
