//! The questions that the database is asked about itself. Every answer is a name and a value, both text; what this user
//! may not see is null or missing. `{outbox}` and `{inbox}` are the tables, `{schema}` is the schema that they are in.

/// The questions for MySQL and MariaDB. SHOW leaves out a variable that a server does not have; elsewhere it would be
/// an error.
pub(crate) const QUESTIONS: &[&str] = &[
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
       AND table_type = 'BASE TABLE'
       AND (table_name = 'postroom_schema' OR table_name REGEXP
            '^({outbox_name}|{inbox_name})(_(line|lease|taken|trouble|answer|failures|seen|marks))?$')",
];
