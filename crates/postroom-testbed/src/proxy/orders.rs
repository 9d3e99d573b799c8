//! What a proxy was told, and how often it did it.

use tokio::sync::watch;

#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) commits_to_cut: u64,
    /// Those are cut before they get to the server.
    pub(super) commits_to_lose: u64,
    /// What becomes of the COMMIT of the transaction in which this is said.
    pub(super) marked: Option<(Vec<u8>, Cut)>,
    pub(super) cuts: u64,
    /// How often a client said something.
    pub(super) said: u64,
    /// Connections of an earlier generation are closed.
    pub(super) generation: u64,
    pub(super) stalled: bool,
    /// Who comes to a port is sent away; a socket is taken away instead.
    pub(super) refusing: bool,
}

/// Waits until the orders are like this.
pub(super) async fn hold(orders: &watch::Sender<Orders>, condition: impl FnMut(&Orders) -> bool) {
    // It fails only without a sender, and we have one.
    let _ = orders.subscribe().wait_for(condition).await;
}

/// What becomes of a COMMIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// It is carried out, and its answer lost.
    Answer,
    /// It never gets to the server.
    Request,
}

/// Whether these bytes say what marks a transaction whose COMMIT is to be cut.
pub(super) fn take_mark(orders: &watch::Sender<Orders>, bytes: &[u8]) -> Option<Cut> {
    let mut cut = None;
    orders.send_if_modified(|orders| {
        let said = |(mark, _): &mut (Vec<u8>, Cut)| bytes.windows(mark.len()).any(|window| window == mark);
        cut = orders.marked.take_if(said).map(|(_, cut)| cut);
        cut.is_some()
    });
    cut
}

/// Whether the COMMIT that was just seen is one to cut.
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
