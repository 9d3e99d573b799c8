//! What a proxy was told, and how often it did it.

use tokio::sync::watch;

#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) commits_to_cut: u64,
    pub(super) cuts: u64,
    /// Connections of an earlier generation are closed.
    pub(super) generation: u64,
    pub(super) stalled: bool,
}

/// Waits until the orders are like this.
pub(super) async fn hold(orders: &watch::Sender<Orders>, condition: impl FnMut(&Orders) -> bool) {
    // It fails only without a sender, and we have one.
    let _ = orders.subscribe().wait_for(condition).await;
}

/// Whether the COMMIT that was just seen is one to cut.
pub(super) fn take_cut(orders: &watch::Sender<Orders>) -> bool {
    orders.send_if_modified(|orders| {
        let is_wanted = orders.commits_to_cut > 0;
        orders.commits_to_cut = orders.commits_to_cut.saturating_sub(1);
        is_wanted
    })
}
