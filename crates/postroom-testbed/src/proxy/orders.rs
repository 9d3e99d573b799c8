//! The orders of a proxy, and how often it executed them.

use tokio::sync::watch;

#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) commits_to_cut: u64,
    /// These COMMITs are cut before they reach the server.
    pub(super) commits_to_lose: u64,
    /// What happens to the COMMIT of the transaction that contains these bytes.
    pub(super) marked: Option<(Vec<u8>, Cut)>,
    pub(super) cuts: u64,
    /// How often a client has sent something.
    pub(super) said: u64,
    /// Connections of an earlier generation are closed.
    pub(super) generation: u64,
    pub(super) stalled: bool,
    /// New clients of a port are refused; a socket is removed instead.
    pub(super) refusing: bool,
}

/// Waits until the orders meet the condition.
pub(super) async fn hold(orders: &watch::Sender<Orders>, condition: impl FnMut(&Orders) -> bool) {
    // This fails only without a sender, and we have one.
    let _ = orders.subscribe().wait_for(condition).await;
}

/// What happens to a COMMIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// It is executed, and its answer is lost.
    Answer,
    /// It never reaches the server.
    Request,
}

/// Returns the cut for a transaction if these bytes contain the words that mark it.
pub(super) fn take_mark(orders: &watch::Sender<Orders>, bytes: &[u8]) -> Option<Cut> {
    let mut cut = None;
    orders.send_if_modified(|orders| {
        let said = |(mark, _): &mut (Vec<u8>, Cut)| bytes.windows(mark.len()).any(|window| window == mark);
        cut = orders.marked.take_if(said).map(|(_, cut)| cut);
        cut.is_some()
    });
    cut
}

/// Returns the cut for the COMMIT that was just seen, if it is to be cut.
pub(super) fn take_cut(orders: &watch::Sender<Orders>) -> Option<Cut> {
    let mut cut = None;
    orders.send_if_modified(|orders| {
        let (left, kind) = match orders {
            Orders { commits_to_lose: left @ 1.., .. } => (left, Cut::Request),
            Orders { commits_to_cut: left @ 1.., .. } => (left, Cut::Answer),
            _ => return false,
        };
        *left -= 1;
        cut = Some(kind);
        true
    });
    cut
}
