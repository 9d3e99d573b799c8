//! The order itself, and nothing else.

/// The modules of one crate, from the lowest to the highest.
pub(in crate::tidy) struct Crate {
    /// The folder of its sources.
    pub(in crate::tidy) folder: &'static str,
    /// A path stands for its module and all below it that have no longer path here. What the root file of the crate
    /// defines itself is `crate`.
    pub(in crate::tidy) modules: &'static [&'static str],
}

pub(super) const FILE: &str = "xtask/src/tidy/order/table.rs";

pub(in crate::tidy) const ORDER: &[Crate] = &[
    Crate { folder: "crates/postroom-macros/src", modules: &["names", "payload", "call", "service", "crate"] },
    Crate {
        folder: "crates/postroom/src",
        modules: &[
            "error",
            "crash",
            "clock",
            "message",
            "queue",
            "retry",
            "background",
            "sql",
            "driver",
            "places",
            "store",
            "telemetry",
            "workqueue",
            "outbox",
            "outgoing",
            "request",
            "inbox",
            "server",
            "sqlite",
            "postgres",
            "mysql",
            "mssql",
            "doctor",
            "handler",
            "worker",
            "dispatcher",
            "maintenance",
            "pull",
            "wire",
            "neighbour",
            "receiver",
            "transport",
            "client",
            "idempotent",
            "declared",
            "tenancy",
            "testing",
            "written",
        ],
    },
];

/// Crates that nobody depends on but tests.
pub(super) const UNORDERED: &[&str] = &["crates/postroom-conformance/src", "crates/postroom-testbed/src"];
