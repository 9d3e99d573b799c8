//! Fragments that several statements share.

/// Makes the commit of this transaction wait for the disk, if it would not do so already. A commit that waits for
/// replicas still does.
macro_rules! durable {
    () => {
        "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
             ELSE current_setting('synchronous_commit') END, true)"
    };
}

/// The server's clock, in microseconds.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}

/// Whether nothing can be written: on a standby, or where the default was set to read-only.
macro_rules! read_only {
    () => {
        "(current_setting('transaction_read_only') = 'on')::int"
    };
}
