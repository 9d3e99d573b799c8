//! The texts that surround the statements on a SQL Server connection: its settings, and how transactions begin and end.

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME())"
    };
}

/// The settings that every transaction of ours begins with, because a handler may have changed any of them on the
/// connection before. An error that nobody checks must not leave half of a transaction, and tables with filtered
/// indexes can be written only under the standard settings.
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

/// Sets up a new connection, and answers with the database it is in.
pub(crate) const SETTINGS: &str = concat!(settings!(), "SELECT DB_NAME()");
/// Whether nothing can be written: on a secondary replica, or in a database that was set to read-only.
macro_rules! read_only {
    () => {
        "CASE WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) = N'READ_ONLY'
              THEN 1 ELSE 0 END"
    };
}

/// Begins one of our own transactions. Answers with the server's time and whether it is read-only, in one round trip.
pub(crate) const BEGIN: &str = concat!(settings!(), "BEGIN TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// Begins a handler's transaction. A deadlock rolls the whole transaction back, and the lock is released with it. If
/// the handler ignores the deadlock, its next write begins another transaction, which must not be committed. The answer
/// is the same as for our own transactions, plus the database: an earlier handler may have changed to another one.
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
/// The nesting depth of the transaction that was begun: 1, or more if a handler began others in it and did not end
/// them. 0 if it is no longer the same transaction.
pub(crate) const DEPTH: &str = concat!(
    "SELECT CASE WHEN XACT_STATE() = 1 AND APPLOCK_MODE(N'public', ",
    handlers_lock!(),
    ", N'Transaction') = N'Exclusive' THEN @@TRANCOUNT ELSE 0 END"
);
/// Inside another transaction a COMMIT stores nothing, and does not say so.
pub(crate) const COMMIT: &str = "COMMIT TRANSACTION; IF @@TRANCOUNT > 0
     BEGIN
         ROLLBACK TRANSACTION;
         THROW 51005, N'a transaction was begun inside the transaction and not ended: nothing is committed', 1;
     END";
/// Rolls a transaction back, and answers whether the next one could write, in one round trip.
pub(crate) const ROLL_BACK: &str =
    concat!("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; SELECT ", clock!(), ", ", read_only!());
/// Follows a statement whose rows are counted, because a client may have switched the server's own count off.
pub(crate) const ROW_COUNT: &str = "; SELECT CAST(@@ROWCOUNT AS bigint)";
/// Ends a text that moves messages, and answers with their number.
pub(crate) const MOVED: &str = "SELECT @moved";
/// Precedes a statement that may find its row already there. Then only the statement fails, and the transaction goes
/// on. A setting that is changed in a text with values is restored when the text ends.
pub(crate) const FORGIVING: &str = "SET XACT_ABORT OFF; ";
/// Answers 1 if a transaction can still be committed.
pub(crate) const STATE: &str = "SELECT CAST(XACT_STATE() AS int)";
/// What a server must report before we trust it: its time, whether it takes writes, its version and edition, and the
/// compatibility level of the database.
pub(crate) const HELLO: &str = concat!(
    "SELECT ",
    clock!(),
    ", CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)),
     CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(60)), CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(9)),
     (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE name = DB_NAME()), @@VERSION"
);
/// Keeps two programs from deploying the schema at once. The schema's text takes the same lock again.
pub(crate) const DEPLOY_LOCK: &str = "DECLARE @locked int;
     EXEC @locked = sp_getapplock @Resource = N'postroom_schema', @LockMode = N'Exclusive', @LockOwner = N'Session',
                                  @LockTimeout = 60000;
     IF @locked < 0
         THROW 51000, N'another program has been deploying the schema for a minute', 1;";
pub(crate) const DEPLOY_BEGIN: &str = "SET XACT_ABORT ON; BEGIN TRANSACTION";
pub(crate) const DEPLOY_END: &str = "IF @@TRANCOUNT > 0 COMMIT TRANSACTION;
     EXEC sp_releaseapplock @Resource = N'postroom_schema', @LockOwner = N'Session'";
/// Ends a batch in the schema's text.
pub(crate) const BATCH_END: &str = "\nGO\n";
