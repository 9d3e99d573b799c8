use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved", upcast_from = Older)]
struct OrderApproved {
    order: u64,
}

struct Older;

fn main() {}
