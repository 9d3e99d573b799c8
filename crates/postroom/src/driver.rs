//! One foreign database crate per file: how it binds, how it reads, how its errors are told apart.

#[cfg(feature = "rusqlite-0_39")]
pub(crate) mod rusqlite_039;

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "sqlx-0_9-sqlite"))]
pub(crate) mod sqlx_09;
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) mod sqlx_mysql_09;
#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) mod sqlx_postgres_09;
