use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved", verison = 2)]
struct OrderApproved {
    order: u64,
}

fn main() {}
