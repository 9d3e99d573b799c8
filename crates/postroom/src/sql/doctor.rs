//! What a database is asked about itself. Every answer is a name and a value, both text; what this user may not see is
//! null or left out. `{outbox}` and `{inbox}` are the tables, `{schema}` where they are.

/// PostgreSQL.
#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) const POSTGRES: &[&str] = &[
    "SELECT 'now', ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint)::text
     UNION ALL SELECT 'standby', pg_is_in_recovery()::text
     UNION ALL SELECT 'tls', ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()
     UNION ALL SELECT 'client', coalesce(host(inet_client_addr()), '')
     UNION ALL SELECT 'backend_age_micros',
                      ((extract(epoch FROM clock_timestamp() - backend_start) * 1000000)::bigint)::text
     FROM pg_stat_activity WHERE pid = pg_backend_pid()
     -- As this user's own transactions have it: ours set it.
     UNION ALL SELECT name, reset_val FROM pg_settings
     WHERE name IN ('server_version', 'server_version_num', 'fsync', 'full_page_writes', 'synchronous_commit',
                    'synchronous_standby_names', 'autovacuum', 'max_connections', 'superuser_reserved_connections',
                    'default_transaction_isolation')",
    "SELECT 'override.' || coalesce(r.rolname, 'every role'), split_part(s.setting, '=', 2)
     FROM pg_db_role_setting d LEFT JOIN pg_roles r ON r.oid = d.setrole CROSS JOIN unnest(d.setconfig) AS s (setting)
     WHERE s.setting LIKE 'synchronous\\_commit=%'
       AND d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))",
    "SELECT 'connections', count(*)::text FROM pg_stat_activity WHERE backend_type = 'client backend'
     UNION ALL SELECT 'replicas', count(*)::text FROM pg_stat_replication
     UNION ALL SELECT 'sees_others', pg_has_role('pg_read_all_stats', 'MEMBER')::text
     UNION ALL SELECT 'oldest_transaction_seconds',
                      floor(max(extract(epoch FROM clock_timestamp() - xact_start)))::bigint::text
     FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     UNION ALL SELECT 'oldest_prepared_seconds',
                      floor(max(extract(epoch FROM clock_timestamp() - prepared)))::bigint::text
     FROM pg_prepared_xacts
     UNION ALL SELECT 'oldest_snapshot_age', max(age(held.xmin))::text
     FROM (SELECT backend_xmin AS xmin FROM pg_stat_activity WHERE pid <> pg_backend_pid()
           UNION ALL SELECT xmin FROM pg_replication_slots
           UNION ALL SELECT transaction FROM pg_prepared_xacts) AS held",
    "SELECT told.queue || told.name, told.value
     FROM (SELECT CASE c.oid WHEN to_regclass('{outbox}') THEN 'outbox' ELSE 'inbox' END AS queue, c.*
           FROM pg_class AS c WHERE c.oid IN (to_regclass('{outbox}'), to_regclass('{inbox}'))) AS c
     LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
     CROSS JOIN LATERAL (VALUES
         (c.queue, '.dead_rows', s.n_dead_tup::text), (c.queue, '.live_rows', s.n_live_tup::text),
         (c.queue, '.persistence', c.relpersistence::text),
         (c.queue, '.autovacuum', (SELECT option_value FROM pg_options_to_table(c.reloptions)
                                   WHERE option_name = 'autovacuum_enabled'))) AS told (queue, name, value)",
];

/// MySQL and MariaDB. A variable that a server does not have is left out by SHOW, and would be an error elsewhere.
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) const MYSQL: &[&str] = &[
    "SELECT 'now', CAST(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) AS CHAR)
     UNION ALL SELECT 'version', version()
     UNION ALL SELECT 'client', SUBSTRING_INDEX(user(), '@', -1)",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN
         ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format', 'innodb_doublewrite',
          'innodb_flush_method', 'innodb_force_recovery', 'read_only', 'super_read_only', 'innodb_read_only',
          'wsrep_on', 'transaction_isolation', 'tx_isolation', 'max_allowed_packet', 'max_connections')",
    "SHOW GLOBAL STATUS WHERE Variable_name IN
         ('Threads_connected', 'Slave_running', 'Slaves_connected', 'Innodb_history_list_length',
          'wsrep_cluster_size')",
    "SHOW SESSION STATUS WHERE Variable_name = 'Ssl_cipher'",
    "SELECT concat('engine.', table_name), engine FROM information_schema.tables
     WHERE table_schema = coalesce(nullif('{schema}', ''), database())
       AND table_name IN ('{outbox_name}', '{outbox_name}_failures', '{inbox_name}', '{inbox_name}_failures',
                          '{inbox_name}_marks', 'postroom_schema')",
];

/// SQLite: pragmas of a connection that only reads. Each has one answer.
#[cfg(feature = "rusqlite-0_39")]
pub(crate) const SQLITE: &[(&str, &str)] =
    &[("journal_mode", "PRAGMA journal_mode"), ("quick_check", "PRAGMA quick_check(1)")];

/// SQL Server. What a server that is like it does not know is left out with the rest of its question.
#[cfg(feature = "tiberius-0_13")]
pub(crate) const MSSQL: &[&str] = &[
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
