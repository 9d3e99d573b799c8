//! The statements on unique keys.

use crate::sql::dialect::statements;

statements! {
    UniqueSql {
        /// Takes the key for a message, unless another message has it. Otherwise no row is counted.
        take,
        /// Returns the message itself if it is stored already, or else the one that has the key.
        holder,
        replaced,
        /// The message that has a key, or had it last.
        last,
        /// Rows that may no longer be needed, with the state of their messages.
        due,
        remove,
        /// Sets when to look again.
        postpone,
    }
}

impl UniqueSql {
    /// `take` is different on each database.
    pub(crate) const fn new(take: &'static str) -> Self {
        Self {
            take,
            holder: "SELECT coalesce((SELECT id FROM {t} WHERE id = ?2),
                                     (SELECT id FROM {t}_unique WHERE name = ?1{lock}))",
            last: "SELECT id FROM {t}_unique WHERE name = ?1",
            replaced: "SELECT replaced FROM {t}_unique WHERE name = ?1 AND id = ?2",
            due: "SELECT u.name, u.id, u.look_at, u.until, (SELECT s.state FROM {v} AS s WHERE s.id = u.id)
                 FROM {t}_unique AS u WHERE u.look_at <= ?1 ORDER BY u.look_at LIMIT ?2{of_key}",
            remove: "DELETE FROM {t}_unique WHERE name = ?1 AND id = ?2 AND look_at = ?3",
            postpone: "UPDATE {t}_unique SET look_at = ?4 WHERE name = ?1 AND id = ?2 AND look_at = ?3",
        }
    }
}
