use postroom::Signal;

#[derive(Signal)]
struct OrderApproved {
    order: u64,
}

fn main() {}
