//! The backends by their names, for macros.

pub use postroom::mssql::Mssql;
pub use postroom::mysql::MySql;
pub use postroom::postgres::Postgres;
pub use postroom::sqlite::Sqlite;
pub use postroom::store::Memory;
