//! The orders of a proxy, and how often it executed them.

use std::collections::VecDeque;

use tokio::sync::watch;

use super::{
    kind::{Counts, Fault},
    mix::Mix,
    target::Target,
};

#[derive(Debug)]
pub(super) struct Orders {
    pub(super) target: Target,
    /// The faults of the next requests, each with the number of requests.
    pub(super) ordered: VecDeque<(Fault, u64)>,
    /// The faults of the requests after those.
    pub(super) mix: Option<Mix>,
    pub(super) counts: Counts,
    /// Connections that were held open in an earlier generation are closed.
    pub(super) generation: u64,
}

impl Orders {
    pub(super) fn new(target: Target) -> Self {
        Self { target, ordered: VecDeque::new(), mix: None, counts: Counts::default(), generation: 0 }
    }

    fn choose(&mut self) -> Fault {
        while let Some((fault, left)) = self.ordered.front_mut() {
            if *left > 0 {
                *left -= 1;
                return *fault;
            }
            self.ordered.pop_front();
        }
        self.mix.as_mut().map_or(Fault::Pass, Mix::draw)
    }
}

/// Returns the fault of the request that has just come.
pub(super) fn choose(orders: &watch::Sender<Orders>) -> Fault {
    let mut fault = Fault::Pass;
    orders.send_if_modified(|orders| {
        fault = orders.choose();
        // Nobody waits for a choice.
        false
    });
    fault
}

/// Counts a completed fault.
pub(super) fn count(orders: &watch::Sender<Orders>, fault: Fault) {
    orders.send_modify(|orders| orders.counts.add(fault));
}

/// Waits until the orders meet the condition.
pub(super) async fn hold(orders: &watch::Sender<Orders>, condition: impl FnMut(&Orders) -> bool) {
    // This fails only without a sender, and we have one.
    let _ = orders.subscribe().wait_for(condition).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ordered_comes_in_order_and_before_what_is_drawn() {
        let mut orders = Orders::new(Target::Unix("/nowhere".into()));
        orders.ordered.extend([(Fault::Reset, 2), (Fault::HalfOpen, 0), (Fault::AnswerOk, 1)]);
        orders.mix = Some(Mix::new(7, vec![(1, Fault::Truncate)]));
        let chosen: Vec<_> = (0..5).map(|_| orders.choose()).collect();
        assert_eq!(chosen, [Fault::Reset, Fault::Reset, Fault::AnswerOk, Fault::Truncate, Fault::Truncate]);
    }

    #[test]
    fn without_orders_everything_passes() {
        assert_eq!(Orders::new(Target::Unix("/nowhere".into())).choose(), Fault::Pass);
    }
}
