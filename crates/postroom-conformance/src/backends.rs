//! The backends by their names, for macros.

pub use postroom::{Memory, Mssql, MySql, Postgres, Sqlite};
