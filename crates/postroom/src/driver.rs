//! One foreign database crate per file: how it binds, how it reads, how its errors are told apart.

#[cfg(feature = "rusqlite-0_39")]
pub(crate) mod rusqlite_039;
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) mod sqlx_mysql_09;
#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) mod sqlx_postgres_09;
#[cfg(feature = "sqlx-0_9-sqlite")]
mod sqlx_sqlite_09;
#[cfg(feature = "tokio-postgres-0_7")]
mod tokio_postgres_07;

// What some of them share.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "tokio-postgres-0_7"))]
mod postgres;
#[cfg(any(feature = "rusqlite-0_39", feature = "sqlx-0_9-sqlite"))]
mod sqlite;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "sqlx-0_9-sqlite"))]
pub(crate) mod sqlx_09;
