//! Classifies a driver's error, wherever it is in the chain of causes.

/// Whether a driver's error says that the server takes no writes at the moment: it is read-only, or its disk is full.
/// The statement stored nothing, and no message is to blame.
pub(crate) fn refuses_writes(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "sqlx-0_9-mysql")]
        crate::db::mysql::error::refuses_writes,
        #[cfg(feature = "sqlx-0_9-postgres")]
        crate::db::postgres::error::refuses_writes,
        #[cfg(feature = "tiberius-0_13")]
        crate::db::mssql::error::refuses_writes,
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

/// Whether a driver's error says that the database rolled the transaction back, and that the same transaction may
/// succeed now.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "sqlx-0_9-mysql")]
        crate::db::mysql::error::is_conflict,
        #[cfg(feature = "sqlx-0_9-postgres")]
        crate::db::postgres::error::is_conflict,
        #[cfg(feature = "tiberius-0_13")]
        crate::db::mssql::error::is_conflict,
    ];
    drivers.iter().any(|is_conflict| is_conflict(error))
}

/// Whether a driver's error says that the database cannot be reached. The same transaction may succeed later.
pub(crate) fn is_outage(error: &(dyn std::error::Error + 'static)) -> bool {
    let drivers: &[fn(&(dyn std::error::Error + 'static)) -> bool] = &[
        #[cfg(feature = "sqlite")]
        crate::db::sqlite::error::is_outage,
    ];
    drivers.iter().any(|is_outage| is_outage(error))
}
