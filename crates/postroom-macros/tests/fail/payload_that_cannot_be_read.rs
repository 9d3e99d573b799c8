use postroom::Signal;
use serde::Serialize;

#[derive(Serialize, Signal)]
#[signal("order.approved")]
struct OrderApproved {
    order: u64,
}

fn main() {}
