use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved")]
#[signal("order.approved.again")]
struct OrderApproved {
    order: u64,
}

fn main() {}
