//! The texts that surround the statements on a PostgreSQL connection: its settings, and how transactions begin and end.

/// Begins one of our own transactions. Answers with the server's time and whether it is read-only, in one round trip.
/// The isolation level is named, because under a stricter default, claims of the same queue would keep making each
/// other fail.
pub(crate) const BEGIN: &str =
    concat!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT ", clock!(), ", ", read_only!(), ", ", durable!());
/// The same on a connection without [`FOR_VERBS`], with those settings for this transaction only.
pub(crate) const BEGIN_PLAIN: &str = concat!(
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT ",
    clock!(),
    ", ",
    read_only!(),
    ", ",
    durable!(),
    ", set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
     set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)"
);
/// The settings of connections that only run our own statements. The planner takes a queue that has grown since it was
/// last analyzed for a short one: it would collect it as a bitmap and sort all of it, for fifty rows. Planning one of
/// our statements takes longer than running it, so a plan is kept. A plan that was made while the table was empty must
/// not scan the whole table later, so every statement uses an index, and joins look up one row after the other. A
/// statement that commits by itself runs at the isolation level that is named here.
///
/// They are requested when the connection is opened and never set afterwards: behind a pooler that was not declared, a
/// setting would stay on a connection that other programs share.
pub(crate) const FOR_VERBS: [(&str, &str); 7] = [
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("default_transaction_isolation", "read committed"),
];
/// Whether a connection has the settings it requested: a pooler may leave them out.
pub(crate) const HAS_SETTINGS: &str = "SELECT (current_setting('enable_bitmapscan') = 'off'
     AND current_setting('plan_cache_mode') = 'force_generic_plan')::int";
/// Begins a handler's transaction at the isolation level that the server or the user has set, because the user's own
/// code runs in it. Answers whether it is read-only. A SELECT would have to be planned; SHOW takes a fraction of the
/// time. The ack makes the commit wait for the disk.
pub(crate) const BEGIN_HANDLER: &str = "BEGIN; SHOW transaction_read_only";
/// The same behind a pooler: the connection may hold statements under the names that this client's driver will use.
pub(crate) const POOLED_BEGIN_HANDLER: &str = "BEGIN; DEALLOCATE ALL; SHOW transaction_read_only";
/// Rolls a transaction back, and answers whether the next one could write, in one round trip.
pub(crate) const ROLL_BACK: &str = concat!("ROLLBACK; SELECT ", clock!(), ", ", read_only!());
/// Precedes the commit of a handler's transaction that ends without an ack. It fails in a transaction that was aborted,
/// and it makes the commit wait for the disk, whatever the handler did.
pub(crate) const SEAL: &str = concat!("SELECT ", durable!());
/// What a server must report before we trust it: its time, whether it is a standby, and its version.
pub(crate) const HELLO: &str =
    concat!("SELECT ", clock!(), ", pg_is_in_recovery()::int::bigint, current_setting('server_version_num')::bigint");
/// Keeps two programs from deploying the schema at once, until the transaction ends. Answers whether the lock is ours.
/// Nobody waits for it inside a statement: an index that is built concurrently waits for all of them to end.
pub(crate) const DEPLOY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(7305521903)::int::bigint";
/// The same lock, until it is released.
pub(crate) const DEPLOY_LOCK_OPEN: &str = "SELECT pg_try_advisory_lock(7305521903)::int::bigint";
pub(crate) const DEPLOY_UNLOCK: &str = "SELECT pg_advisory_unlock(7305521903)";
/// A query for the version fails if there are no tables. The transaction goes on from here.
pub(crate) const DEPLOY_MARK: &str = "SAVEPOINT postroom_deploy";
pub(crate) const DEPLOY_RETURN: &str = "ROLLBACK TO SAVEPOINT postroom_deploy";
/// Wakes the workers of other processes. Nothing is lost if the server drops the notification.
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)";
