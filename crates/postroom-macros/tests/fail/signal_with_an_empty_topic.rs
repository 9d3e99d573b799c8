use postroom::Signal;

#[derive(Signal)]
#[signal("")]
struct OrderApproved {
    order: u64,
}

fn main() {}
