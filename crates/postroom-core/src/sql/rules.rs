//! The statements on what operators set for a queue and for parts of it. They are the same on every database.

use crate::sql::dialect::statements;

statements! {
    RuleSql {
        list, find, add, pause, resume, limit,
        /// Deletes a rule that says nothing any more.
        sweep,
        /// A limit counts from a row of its own, on which claims of that place take turns.
        rate_add, rate_remove,
        /// Waits for its turn.
        rate_lock,
        rate_read, rate_set,
    }
}

pub(crate) const RULES: RuleSql = RuleSql {
    list: "SELECT kind, name, places, every, burst, on_dead, paused_at, paused_by, paused_why FROM {t}_rules
         ORDER BY kind, name",
    find: "SELECT 1 FROM {t}_rules WHERE kind = ?1 AND name = ?2",
    add: "INSERT INTO {t}_rules (kind, name) VALUES (?1, ?2)",
    pause: "UPDATE {t}_rules SET paused_at = ?3, paused_by = ?4, paused_why = ?5
         WHERE kind = ?1 AND name = ?2 AND paused_at IS NULL",
    resume: "UPDATE {t}_rules SET paused_at = NULL, paused_by = NULL, paused_why = NULL
         WHERE kind = ?1 AND name = ?2 AND paused_at IS NOT NULL",
    limit: "UPDATE {t}_rules SET places = ?3, every = ?4, burst = ?5, on_dead = ?6 WHERE kind = ?1 AND name = ?2",
    sweep: "DELETE FROM {t}_rules WHERE kind = ?1 AND name = ?2
           AND places IS NULL AND on_dead IS NULL AND every IS NULL AND paused_at IS NULL",
    rate_add: "INSERT INTO {t}_rates (kind, name, tat) VALUES (?1, ?2, ?3)",
    rate_remove: "DELETE FROM {t}_rates WHERE kind = ?1 AND name = ?2",
    rate_lock: "UPDATE {t}_rates SET tat = tat WHERE kind = ?1 AND name = ?2",
    rate_read: "SELECT tat FROM {t}_rates WHERE kind = ?1 AND name = ?2",
    rate_set: "UPDATE {t}_rates SET tat = ?3 WHERE kind = ?1 AND name = ?2",
};
