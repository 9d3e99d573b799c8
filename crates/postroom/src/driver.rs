//! One foreign database crate per file: how it binds, how it reads, how its errors are told apart.

#[cfg(feature = "rusqlite-0_39")]
pub(crate) mod rusqlite_039;
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) mod sqlx_mysql_09;
#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) mod sqlx_postgres_09;
#[cfg(feature = "sqlx-0_9-sqlite")]
mod sqlx_sqlite_09;
#[cfg(feature = "tiberius-0_13")]
pub(crate) mod tiberius_013;
#[cfg(feature = "tokio-postgres-0_7")]
mod tokio_postgres_07;

// What some of them share.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "tokio-postgres-0_7"))]
mod postgres;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) mod server;
#[cfg(any(feature = "rusqlite-0_39", feature = "sqlx-0_9-sqlite"))]
mod sqlite;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "sqlx-0_9-sqlite"))]
pub(crate) mod sqlx_09;

/// Whether a driver's error says that the server takes no writes at the moment: it is read-only, or its disk is full.
/// Nothing of the statement is stored, and no message is to blame.
pub(crate) fn refuses_writes(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "sqlx-0_9-mysql")]
        sqlx_mysql_09::refuses_writes,
        #[cfg(feature = "sqlx-0_9-postgres")]
        sqlx_postgres_09::refuses_writes,
        #[cfg(feature = "tiberius-0_13")]
        tiberius_013::refuses_writes,
    ];
    let mut cause = Some(error);
    while let Some(error) = cause {
        if drivers.iter().any(|refuses_writes| refuses_writes(error)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether a driver's error says that the database rolled the transaction back and may take the same one now.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "sqlx-0_9-mysql")]
        sqlx_mysql_09::is_conflict,
        #[cfg(feature = "sqlx-0_9-postgres")]
        sqlx_postgres_09::is_conflict,
        #[cfg(feature = "tiberius-0_13")]
        tiberius_013::is_conflict,
    ];
    drivers.iter().any(|is_conflict| is_conflict(error))
}

/// Whether a driver's error says that the database is out of reach: the same transaction may succeed later.
pub(crate) fn is_outage(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "rusqlite-0_39")]
        rusqlite_039::is_outage,
    ];
    drivers.iter().any(|is_outage| is_outage(error))
}
