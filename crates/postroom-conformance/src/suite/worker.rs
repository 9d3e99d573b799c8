//! Who handles messages: in which order, how often, with which effects, and when a worker stops.

mod cancelled;
mod discovery;
mod dispatch;
mod effects;
mod fair;
mod fleet;
mod in_order;
mod lane_storm;
mod pull;
mod renew;
mod retry;
mod route;
mod router;
mod sabotage;
mod shutdown;
mod throughput;
mod typed;
mod wake;
mod work;

use crate::case::Case;

/// Every case about workers, for one store or for many.
pub(super) fn cases() -> Vec<Case> {
    [
        route::CASES,
        typed::CASES,
        retry::CASES,
        work::CASES,
        renew::CASES,
        cancelled::CASES,
        shutdown::CASES,
        wake::CASES,
        dispatch::CASES,
        pull::CASES,
        router::CASES,
        fleet::CASES,
        discovery::CASES,
        fair::CASES,
        in_order::CASES,
        lane_storm::CASES,
        effects::CASES,
        sabotage::CASES,
        throughput::CASES,
    ]
    .concat()
}
