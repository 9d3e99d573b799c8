//! What is said on a connection to PostgreSQL around the statements: its settings, and how transactions begin and end.

/// Begins one of our own transactions and answers with the server's time and whether it is read-only: one trip. The
/// isolation level is named: under a stricter default, claims of the same line would keep failing each other.
pub(crate) const BEGIN: &str =
    concat!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT ", clock!(), ", ", read_only!(), ", ", durable!());
/// The same on a connection without [`FOR_VERBS`], with those settings for this transaction alone.
pub(crate) const BEGIN_PLAIN: &str = concat!(
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT ",
    clock!(),
    ", ",
    read_only!(),
    ", ",
    durable!(),
    ", set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
     set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)"
);
/// For connections that only run our own statements. A line that has grown since it was last analyzed is thought to be
/// short: it would be collected as a bitmap and sorted whole, for fifty rows. Planning one of our statements takes
/// longer than running it, so a plan is kept; and one that was made while the table was empty must not read all of it
/// later, so every statement goes by an index. A statement that commits itself runs at the level that is named here.
///
/// They are asked for when the connection is opened and never set afterwards: behind a pooler that nobody told us of,
/// a setting would stay on a connection that other programs share.
pub(crate) const FOR_VERBS: [(&str, &str); 5] = [
    ("enable_bitmapscan", "off"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("default_transaction_isolation", "read committed"),
];
/// Whether a connection has the settings it asked for: a pooler may leave them out.
pub(crate) const HAS_SETTINGS: &str = "SELECT (current_setting('enable_bitmapscan') = 'off'
     AND current_setting('plan_cache_mode') = 'force_generic_plan')::int";
/// Begins a handler's transaction, at the level that the server or the user has set: it is the user's own code that
/// runs in it. It answers as ours do.
pub(crate) const BEGIN_HANDLER: &str = concat!("BEGIN; SELECT ", clock!(), ", ", read_only!(), ", ", durable!());
/// The same behind a pooler: the connection may hold statements under the names that this client's driver will give.
pub(crate) const POOLED_BEGIN_HANDLER: &str =
    concat!("BEGIN; DEALLOCATE ALL; SELECT ", clock!(), ", ", read_only!(), ", ", durable!());
/// Undoes a transaction, and says whether the next one could write: one trip.
pub(crate) const ROLL_BACK: &str = concat!("ROLLBACK; SELECT ", clock!(), ", ", read_only!());
/// Comes before the commit of a handler's transaction that ends without an ack: one that was aborted refuses it, and
/// the commit waits for the disk whatever the handler did.
pub(crate) const SEAL: &str = concat!("SELECT ", durable!());
/// What a server must say of itself before we trust it: its time, whether it is a standby, its version.
pub(crate) const HELLO: &str =
    concat!("SELECT ", clock!(), ", pg_is_in_recovery()::int::bigint, current_setting('server_version_num')::bigint");
/// Keeps two programs from deploying the schema at once, until the transaction ends.
pub(crate) const DEPLOY_LOCK: &str = "SELECT pg_advisory_xact_lock(7305521903)";
/// Wakes the workers of other processes. Nothing is lost if the server forgets it.
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)";
