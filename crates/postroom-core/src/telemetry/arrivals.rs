//! Counts the messages that arrived since the process started, and the duplicates among them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::label::store_label;

/// The messages that arrived in the inbox of a store since the process started.
///
/// ```
/// use postroom::{Inbox, InboxKey, Incoming, telemetry};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let inbox = Inbox::new(MemoryStore::new().named("warehouse"));
/// for _ in 0..4 {
///     inbox.accept(Incoming::new(InboxKey::new("shop", "evt_1")?, "order.placed", "{}")).await?;
/// }
/// let arrivals = telemetry::arrivals("warehouse");
/// assert_eq!((arrivals.messages, arrivals.duplicates), (4, 3));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Arrivals {
    /// All messages that arrived.
    pub messages: u64,
    /// The duplicates among them.
    pub duplicates: u64,
}

static COUNTED: Mutex<Option<HashMap<String, Arrivals>>> = Mutex::new(None);

/// Returns the messages that arrived in the inbox of the store with this name, as metrics call it. A message that its
/// sender repeats is counted each time.
///
/// ```
/// assert_eq!(postroom::telemetry::arrivals("nobody's").messages, 0);
/// ```
pub fn arrivals(store: &str) -> Arrivals {
    let counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    counted.as_ref().and_then(|counted| counted.get(&store_label(store))).copied().unwrap_or_default()
}

pub(super) fn count(store: &str, is_duplicate: bool) {
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let arrivals = counted.get_or_insert_default().entry(store_label(store)).or_default();
    arrivals.messages += 1;
    arrivals.duplicates += u64::from(is_duplicate);
}
