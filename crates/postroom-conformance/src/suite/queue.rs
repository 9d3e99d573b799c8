//! What happens to a message in its queue, verb by verb.

mod abandon;
mod ack;
mod arrive;
mod asked_to_stop;
mod claim;
mod clocks;
mod crash;
mod dedupe;
mod dismiss;
mod enqueue;
mod expire;
mod extend;
mod fail;
mod head_start;
mod lane_rules;
mod lanes;
mod limits;
mod marks;
pub(super) mod model;
mod partial;
mod purge;
mod reap;
mod release;
mod retention;
mod revive;
mod rules;
mod take_back;
mod unique;
mod unique_crowd;
mod values;

use crate::case::Case;

/// Every case about a queue.
pub(super) fn cases() -> Vec<Case> {
    [
        enqueue::CASES,
        unique::CASES,
        unique_crowd::CASES,
        limits::CASES,
        lanes::CASES,
        lane_rules::CASES,
        rules::CASES,
        values::CASES,
        claim::CASES,
        head_start::CASES,
        ack::CASES,
        abandon::CASES,
        fail::CASES,
        release::CASES,
        extend::CASES,
        partial::CASES,
        reap::CASES,
        crash::CASES,
        expire::CASES,
        revive::CASES,
        dismiss::CASES,
        take_back::CASES,
        asked_to_stop::CASES,
        purge::CASES,
        retention::CASES,
        dedupe::CASES,
        marks::CASES,
        arrive::CASES,
        clocks::CASES,
        model::CASES,
    ]
    .concat()
}
