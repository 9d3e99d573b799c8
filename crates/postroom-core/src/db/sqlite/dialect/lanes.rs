//! What operators ask about lanes. Messages that no claim has looked at have no row in their lane, and come behind
//! those that have one.

use crate::sql::questions::QuestionSql;
use crate::sql::shared;

/// The messages of the lane `?1` that no claim has looked at.
macro_rules! fresh_in_lane {
    () => {
        "{t} AS m WHERE m.lane = ?1 AND m.seq >= (SELECT next FROM {t}_front WHERE one = 1) AND m.born = 0
             AND NOT EXISTS (SELECT 1 FROM {t}_trouble AS t WHERE t.seq = m.seq)"
    };
}

/// Messages of lanes from one end: `ASC` or `DESC`.
macro_rules! from_end {
    ($way:literal) => {
        concat!(
            "SELECT lane FROM (SELECT seq, lane FROM {t}_lane ORDER BY seq ",
            $way,
            " LIMIT ?1)
             UNION ALL SELECT lane FROM (SELECT seq, lane FROM {t}_fresh ORDER BY seq ",
            $way,
            " LIMIT ?1) WHERE lane IS NOT NULL"
        )
    };
}

pub(super) const QUESTIONS: QuestionSql = QuestionSql {
    lanes_at_ends: concat!(from_end!("ASC"), " UNION ALL ", from_end!("DESC")),
    lane_depth: concat!(
        "SELECT min(?2, (SELECT count(*) FROM (SELECT 1 FROM {t}_lane WHERE lane = ?1 LIMIT ?2))
             + (SELECT count(*) FROM (SELECT 1 FROM ",
        fresh_in_lane!(),
        " LIMIT ?2))),
         coalesce((SELECT seq FROM {t}_lane WHERE lane = ?1 ORDER BY no LIMIT 1), (SELECT m.seq FROM ",
        fresh_in_lane!(),
        " ORDER BY m.seq LIMIT 1))"
    ),
    lane_row: "SELECT lane, no FROM {t}_lane WHERE seq = ?1
         UNION ALL SELECT lane, seq << 24 FROM {t}_fresh WHERE seq = ?1 AND lane IS NOT NULL LIMIT 1",
    lane_ahead: concat!(
        "SELECT min(?2, (SELECT count(*) FROM (SELECT 1 FROM {t}_lane WHERE lane = ?1 AND no < ?3 LIMIT ?2))
             + (SELECT count(*) FROM (SELECT 1 FROM ",
        fresh_in_lane!(),
        " AND m.seq < (?3 >> 24) LIMIT ?2)))"
    ),
    ..shared::QUESTIONS
};
