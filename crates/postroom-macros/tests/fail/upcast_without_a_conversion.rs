use postroom::Signal;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved")]
struct OrderApprovedV1 {
    order: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2, upcast_from = OrderApprovedV1)]
struct OrderApproved {
    order: u64,
}

fn main() {}
