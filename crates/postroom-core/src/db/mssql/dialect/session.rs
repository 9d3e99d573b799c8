//! What is said on a connection to SQL Server around the statements: its settings, and how transactions begin and end.

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME())"
    };
}

/// What every transaction of ours begins with, whatever was said on the connection before: handlers may say anything.
/// An error that nobody looks at must not leave half of a transaction; and tables with filtered indexes are written
/// only by those who keep to the standard.
macro_rules! settings {
    () => {
        "SET IMPLICIT_TRANSACTIONS OFF; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET XACT_ABORT ON;
         SET NOCOUNT OFF; SET ROWCOUNT 0; SET LOCK_TIMEOUT -1; SET DEADLOCK_PRIORITY NORMAL;
         SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; SET ARITHABORT ON;
         SET CONCAT_NULL_YIELDS_NULL ON; SET QUOTED_IDENTIFIER ON; SET NUMERIC_ROUNDABORT OFF; "
    };
}

/// The name of the lock that goes with a handler's transaction.
macro_rules! handlers_lock {
    () => {
        "N'postroom_handler_' + CAST(@@SPID AS nvarchar(9))"
    };
}

/// What a connection is told when it is new. It answers with the database it is in.
pub(crate) const SETTINGS: &str = concat!(settings!(), "SELECT DB_NAME()");
/// Whether nothing can be written: on a secondary replica, or in a database that was set so.
macro_rules! read_only {
    () => {
        "CASE WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) = N'READ_ONLY'
              THEN 1 ELSE 0 END"
    };
}

/// Begins one of our own transactions and answers with the server's time and whether it is read-only: one trip.
pub(crate) const BEGIN: &str = concat!(settings!(), "BEGIN TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// Begins a handler's transaction. A deadlock rolls it back as a whole: then the lock is gone, and what a handler that
/// overlooked it writes next is in a transaction that was begun for it, and must not be committed. It answers as ours
/// do, and with the database: a handler before may have left for another.
pub(crate) const BEGIN_HANDLER: &str = concat!(
    settings!(),
    "BEGIN TRANSACTION;
     DECLARE @mark nvarchar(255) = ",
    handlers_lock!(),
    ";
     EXEC sp_getapplock @Resource = @mark, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 0;
     SET IMPLICIT_TRANSACTIONS ON; SELECT ",
    clock!(),
    ", ",
    read_only!(),
    ", DB_NAME()"
);
/// How deep we are in the transaction that was begun: 1, or more when a handler began others in it and did not end
/// them. 0 when it is no longer that one.
pub(crate) const DEPTH: &str = concat!(
    "SELECT CASE WHEN XACT_STATE() = 1 AND APPLOCK_MODE(N'public', ",
    handlers_lock!(),
    ", N'Transaction') = N'Exclusive' THEN @@TRANCOUNT ELSE 0 END"
);
/// Inside another transaction a COMMIT stores nothing, and says nothing of that.
pub(crate) const COMMIT: &str = "COMMIT TRANSACTION; IF @@TRANCOUNT > 0
     BEGIN
         ROLLBACK TRANSACTION;
         THROW 51005, N'a transaction was begun inside the transaction and not ended: nothing is committed', 1;
     END";
/// Undoes a transaction, and says whether the next one could write: one trip.
pub(crate) const ROLL_BACK: &str =
    concat!("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// Follows a statement whose rows are counted: a client may have told the server not to.
pub(crate) const ROW_COUNT: &str = "; SELECT CAST(@@ROWCOUNT AS bigint)";
/// Before a statement that may find its row there already: then only the statement fails, and the transaction goes on.
/// What is set in a text with values is as before at its end.
pub(crate) const FORGIVING: &str = "SET XACT_ABORT OFF; ";
/// Whether a transaction can still be committed: 1.
pub(crate) const STATE: &str = "SELECT CAST(XACT_STATE() AS int)";
/// What a server must say of itself before we trust it: its time, whether it takes writes, its version and edition, how
/// old a version of itself the database keeps to.
pub(crate) const HELLO: &str = concat!(
    "SELECT ",
    clock!(),
    ", CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)),
     CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(60)), CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(9)),
     (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE name = DB_NAME()), @@VERSION"
);
/// Ends a batch in the schema's text.
pub(crate) const BATCH_END: &str = "\nGO\n";
