//! Messages from one service to another: how they travel, whose are accepted, and what is answered.

mod admission;
mod declared;
mod default_transport;
mod failures;
mod neighbours;
mod queued;
mod receipts;
mod receive;
mod service_map;
mod trouble;
mod trust;
mod twins;
mod wires;

use crate::case::Case;

/// Every case between services.
pub(super) fn cases() -> Vec<Case> {
    let receivers = [receive::CASES, admission::CASES, twins::CASES, queued::CASES, trust::CASES];
    let senders = [receipts::CASES, failures::CASES, trouble::CASES, service_map::CASES, default_transport::CASES];
    let both = [declared::CASES, neighbours::CASES];
    [receivers.concat(), senders.concat(), both.concat(), wires::PROMISES.concat()].concat()
}
