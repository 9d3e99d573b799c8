//! The databases. Each folder has the same files: what it is told (`dialect.rs`, `schema/`), who tells it
//! (`driver_*.rs`), what its errors mean (`error.rs`), how it is opened (`options.rs`) and examined (`doctor.rs`).

#[cfg(any(feature = "sqlite", feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub mod doctor;
pub(crate) mod errors;
#[cfg(feature = "tiberius-0_13")]
pub(crate) mod mssql;
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) mod mysql;
#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) mod postgres;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) mod server;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "sqlx-0_9-sqlite"))]
mod sqlx_09;
#[cfg(any(feature = "sqlite", feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
mod store;
