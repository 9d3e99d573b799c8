//! The questions that the database is asked about itself. Every answer is a name and a value, both text; what this user
//! may not see is null or missing. `{outbox}` and `{inbox}` are the tables, `{schema}` is the schema that they are in.

/// The questions for PostgreSQL.
pub(crate) const QUESTIONS: &[&str] = &[
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
     -- The table of the messages, and those that say where they stand.
     CROSS JOIN LATERAL (
         SELECT sum(s.n_dead_tup) AS n_dead_tup, sum(s.n_live_tup) AS n_live_tup,
                max(p.relpersistence::text) AS relpersistence -- 'u' comes after 'p'
         FROM pg_class AS p LEFT JOIN pg_stat_all_tables AS s ON s.relid = p.oid
         WHERE p.relnamespace = c.relnamespace AND p.relkind = 'r' AND p.relname IN (
             c.relname, c.relname || '_line', c.relname || '_lease', c.relname || '_held', c.relname || '_done',
             c.relname || '_trouble', c.relname || '_answer')) AS s
     CROSS JOIN LATERAL (VALUES
         (c.queue, '.dead_rows', s.n_dead_tup::text), (c.queue, '.live_rows', s.n_live_tup::text),
         (c.queue, '.persistence', s.relpersistence),
         (c.queue, '.autovacuum', (SELECT option_value FROM pg_options_to_table(c.reloptions)
                                   WHERE option_name = 'autovacuum_enabled'))) AS told (queue, name, value)",
];
