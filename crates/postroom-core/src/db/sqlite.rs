//! SQLite, embedded: one writer thread for each file, many jobs for each fsync.

mod backup;
mod blocking;
mod chunk;
mod connect;
pub(crate) mod dialect;
mod doctor;
pub(crate) mod driver_rusqlite;
#[cfg(feature = "sqlx-0_9-sqlite")]
mod driver_sqlx_09;
mod durable;
mod enqueue;
pub(crate) mod error;
mod examine;
mod function;
mod group;
mod guard;
mod handling;
mod job;
mod line;
mod log;
mod on_writer;
mod options;
mod patience;
mod place;
mod readers;
mod receive;
mod schema;
mod session;
#[cfg(feature = "testing")]
pub(crate) mod statements;
mod store;
mod thread;
mod watch;
mod write;
mod writer;

pub use backup::{BackupProgress, restore_check};
pub(crate) use connect::SQLITE_VERSION_MIN;
pub use function::BlockingFn;
pub(crate) use handling::BlockingHandler;
pub use handling::{BlockingCtx, Sqlite};
pub use options::{Durability, SqliteOptions};
pub use session::SqliteTx;
pub use store::SqliteStore;
pub use write::WriteTx;
