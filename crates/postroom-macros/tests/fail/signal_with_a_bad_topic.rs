use postroom::Signal;

#[derive(Signal)]
#[signal("order approved")]
struct OrderApproved {
    order: u64,
}

fn main() {}
