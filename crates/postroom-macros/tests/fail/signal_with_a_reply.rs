use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved", reply = u64)]
struct OrderApproved {
    order: u64,
}

fn main() {}
