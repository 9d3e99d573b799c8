//! The order itself, and nothing else.

/// The modules of one crate, from the lowest to the highest.
pub(in crate::tidy) struct Crate {
    /// The folder of its sources.
    pub(in crate::tidy) folder: &'static str,
    /// A path covers its module and everything below it that has no longer path here. Items in the root file of the
    /// crate belong to `crate`.
    pub(in crate::tidy) modules: &'static [&'static str],
}

pub(super) const FILE: &str = "xtask/src/tidy/order/table.rs";

pub(in crate::tidy) const ORDER: &[Crate] = &[
    Crate { folder: "crates/postroom-macros/src", modules: &["names", "lane", "payload", "call", "service", "crate"] },
    Crate {
        folder: "crates/postroom-core/src",
        modules: &[
            "support::setters",
            "support::error",
            "support::by_number",
            "support::clock",
            "support::task",
            "support::crash",
            "message",
            "queue",
            "sql",
            "store",
            "telemetry",
            "mailbox::work_queue",
            "mailbox::cancel",
            "mailbox::operator",
            "mailbox::questions",
            "mailbox::request",
            "mailbox::outbox",
            "mailbox::transaction",
            "mailbox::inbox",
            "db::sqlx_09",
            "db::sqlite::error",
            "db::postgres::error",
            "db::mysql::error",
            "db::mssql::error",
            "db::errors",
            "work::places",
            "work::batch",
            "work::delivery",
            "work::handler",
            "work::dispatcher",
            "work::worker",
            "work::pull",
            "tenancy",
            "db::doctor",
            "db::server",
            "db::sqlite",
            "db::store",
            "db::postgres",
            "db::mysql",
            "db::mssql",
            "testing",
        ],
    },
    Crate {
        folder: "crates/postroom-services/src",
        modules: &["wire", "foreign", "receiver", "transport", "client", "service"],
    },
    Crate {
        folder: "crates/postroom-idempotent/src",
        modules: &[
            "options", "lines", "purges", "once", "handling", "crate", "attempt", "set", "shared", "layer", "http",
        ],
    },
    Crate { folder: "crates/postroom/src", modules: &["macro_support"] },
];

/// Only tests depend on these crates.
pub(super) const UNORDERED: &[&str] =
    &["crates/postroom-conformance/src", "crates/postroom-fuzzing/src", "crates/postroom-testbed/src"];
