use postroom::Signal;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2)]
struct OrderApprovedV2 {
    order: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2, upcast_from = OrderApprovedV2)]
struct OrderApproved {
    order: u64,
}

impl From<OrderApprovedV2> for OrderApproved {
    fn from(old: OrderApprovedV2) -> Self {
        Self { order: old.order }
    }
}

fn main() {}
