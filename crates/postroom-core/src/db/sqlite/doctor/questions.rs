//! The questions that the database is asked about itself. Every answer is a name and a value, both text; what this user
//! may not see is null or missing. `{outbox}` and `{inbox}` are the tables, `{schema}` is the schema that they are in.

/// The questions for SQLite: pragmas on a connection that only reads. Each has one answer.
pub(crate) const QUESTIONS: &[(&str, &str)] =
    &[("journal_mode", "PRAGMA journal_mode"), ("quick_check", "PRAGMA quick_check(1)")];
