//! What the database is asked about itself. Every answer is a name and a value, both text; what this user may not see
//! is null or left out. `{outbox}` and `{inbox}` are the tables, `{schema}` where they are.

/// SQLite: pragmas of a connection that only reads. Each has one answer.
pub(crate) const QUESTIONS: &[(&str, &str)] =
    &[("journal_mode", "PRAGMA journal_mode"), ("quick_check", "PRAGMA quick_check(1)")];
