use postroom::Signal;
use serde::Deserialize;

#[derive(Deserialize, Signal)]
#[signal("order.approved")]
struct OrderApproved {
    order: u64,
}

fn main() {}
