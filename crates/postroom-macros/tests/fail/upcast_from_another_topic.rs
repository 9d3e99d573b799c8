use postroom::Signal;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.placed")]
struct OrderPlaced {
    order: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2, upcast_from = OrderPlaced)]
struct OrderApproved {
    order: u64,
}

impl From<OrderPlaced> for OrderApproved {
    fn from(old: OrderPlaced) -> Self {
        Self { order: old.order }
    }
}

fn main() {}
