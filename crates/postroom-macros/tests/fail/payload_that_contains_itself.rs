use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved")]
struct OrderApproved {
    order: u64,
    previous: Option<OrderApproved>,
}

fn main() {}
