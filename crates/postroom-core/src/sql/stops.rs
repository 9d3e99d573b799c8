//! The statements on messages in progress that are to stop. They are the same on every database.

use crate::sql::dialect::statements;

statements! {
    StopSql {
        add,
        /// Those of these messages that are to stop, with who asked and why.
        of,
        /// All of them, with the state in which the message is if its claim is still the same.
        list,
        remove,
        /// Messages by number, without their content.
        rows,
    }
}

pub(crate) const STOPS: StopSql = StopSql {
    add: "INSERT INTO {t}_stops (seq, claim_no, at, who, why) VALUES (?1, ?2, ?3, ?4, ?5)",
    of: "SELECT seq, claim_no, who, why FROM {t}_stops WHERE seq{by_number}",
    list: "SELECT s.seq, s.claim_no, (SELECT m.state FROM {v} AS m WHERE m.seq = s.seq AND m.claim_no = s.claim_no)
         FROM {t}_stops AS s",
    remove: "DELETE FROM {t}_stops WHERE seq = ?1 AND claim_no = ?2",
    rows: "SELECT {bare} FROM {v} WHERE seq{by_number}",
};
