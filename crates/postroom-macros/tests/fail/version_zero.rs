use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved", version = 0)]
struct OrderApproved {
    order: u64,
}

fn main() {}
