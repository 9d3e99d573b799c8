//! The questions that the database is asked about itself. Every answer is a name and a value, both text; what this user
//! may not see is null or missing. `{outbox}` and `{inbox}` are the tables, `{schema}` is the schema that they are in.

/// The questions for SQL Server. If a compatible server does not support one of them, it answers nothing of that
/// question.
pub(crate) const QUESTIONS: &[&str] = &[
    "SELECT N'now', CAST(DATEDIFF_BIG(MICROSECOND, '19700101', SYSUTCDATETIME()) AS nvarchar(30))
     UNION ALL SELECT N'product', CAST(@@VERSION AS nvarchar(400))
     UNION ALL SELECT N'database', CAST(DB_NAME() AS nvarchar(200))
     UNION ALL SELECT N'version', CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(60))
     UNION ALL SELECT N'edition', CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(9))
     UNION ALL SELECT N'updateability', CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60))",
    "SELECT N'compatibility_level', CAST(compatibility_level AS nvarchar(9)) FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'delayed_durability', CAST(delayed_durability_desc AS nvarchar(60))
     FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'recovery_model', CAST(recovery_model_desc AS nvarchar(60)) FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'page_verify', CAST(page_verify_option_desc AS nvarchar(60)) FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'rcsi', CAST(is_read_committed_snapshot_on AS nvarchar(9)) FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'auto_close', CAST(is_auto_close_on AS nvarchar(9)) FROM sys.databases WHERE name = DB_NAME()",
    "SELECT N'max_connections', CAST(@@MAX_CONNECTIONS AS nvarchar(9))",
    "SELECT N'client', CAST(CONNECTIONPROPERTY('client_net_address') AS nvarchar(60))",
    "SELECT N'tls', CAST(encrypt_option AS nvarchar(9)) FROM sys.dm_exec_connections WHERE session_id = @@SPID",
    "SELECT N'connections', CAST(COUNT(*) AS nvarchar(9)) FROM sys.dm_exec_sessions WHERE is_user_process = 1",
    "SELECT N'oldest_transaction_seconds', CAST(MAX(DATEDIFF(SECOND, t.transaction_begin_time, SYSDATETIME()))
         AS nvarchar(30))
     FROM sys.dm_tran_active_transactions AS t
     JOIN sys.dm_tran_session_transactions AS s ON s.transaction_id = t.transaction_id
     WHERE s.is_user_transaction = 1 AND s.session_id <> @@SPID",
    "SELECT N'procedures', CAST(COUNT(*) AS nvarchar(9)) FROM sys.procedures AS p
     WHERE p.object_id IN (OBJECT_ID(N'{outbox}_claim'), OBJECT_ID(N'{inbox}_claim'))",
];
