use postroom::Signal;

#[derive(serde::Serialize, serde::Deserialize, Signal)]
#[signal("order.approved", lane = "order-{order}")]
struct OrderApproved {
    order: Option<u64>,
}

fn main() {}
