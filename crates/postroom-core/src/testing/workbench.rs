//! A store with a manual clock, its outbox and its inbox: what most tests start with.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;

use crate::mailbox::inbox::Inbox;
use crate::mailbox::outbox::Outbox;
use crate::store::{MemoryStore, Store};
use crate::support::clock::{Clock, ManualClock, Timestamp};
use crate::work::handler::{Backend, Memory};

/// Every test starts at 2026-01-01 00:00 UTC.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A store whose clock stands still until the test moves it.
///
/// ```
/// use std::time::Duration;
/// use postroom::testing::Workbench;
/// use postroom::NewMessage;
/// use postroom::message::OwnerToken;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let bench = Workbench::memory();
/// let hour = Duration::from_secs(3600);
/// bench.outbox().enqueue(NewMessage::new("invoice.due", "{}").due_after(hour)).await?;
/// bench.clock().advance(hour);
/// let claims = bench.outbox().queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// assert_eq!(claims.claimed.len(), 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub struct Workbench<B: Backend> {
    pub(super) store: B::Store,
    clock: ManualClock,
    outbox: Outbox,
    inbox: Inbox,
    /// It is removed with the workbench.
    #[cfg(feature = "sqlite")]
    folder: Option<PathBuf>,
}

impl Workbench<Memory> {
    /// Creates a workbench with a store in memory, for handlers that use no tables of their own.
    pub fn memory() -> Self {
        let clock = ManualClock::new(START);
        Self::on(MemoryStore::with_clock(Clock::Manual(clock.clone())), clock)
    }
}

#[cfg(feature = "sqlite")]
impl Workbench<crate::Sqlite> {
    /// Creates a workbench with a SQLite database in its own folder, which is removed with the workbench.
    pub async fn sqlite() -> crate::Result<Self> {
        let folder = std::env::temp_dir().join(format!("postroom-bench-{}", crate::MessageId::new()));
        std::fs::create_dir(&folder).map_err(|error| {
            crate::Error::new(crate::ErrorKind::Unavailable, format!("cannot create {}", folder.display()))
                .caused_by(error)
        })?;
        let clock = ManualClock::new(START);
        let options = crate::SqliteOptions::new(folder.join("bench.db")).clock(Clock::Manual(clock.clone()));
        let store = options.deploy_schema(true).open().await?;
        let mut bench = Self::on(store, clock);
        bench.folder = Some(folder);
        Ok(bench)
    }
}

impl<B: Backend> Workbench<B> {
    /// Wraps a store that the test opened with this clock.
    pub fn on(store: B::Store, clock: ManualClock) -> Self {
        let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));
        Self {
            store,
            clock,
            outbox,
            inbox,
            #[cfg(feature = "sqlite")]
            folder: None,
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &B::Store {
        &self.store
    }

    /// Returns the store's clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Returns the store's outbox.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns the store's inbox.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

#[cfg(feature = "sqlite")]
impl<B: Backend> Drop for Workbench<B> {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl<B: Backend> fmt::Debug for Workbench<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workbench").field("store", &self.store.name()).finish_non_exhaustive()
    }
}
