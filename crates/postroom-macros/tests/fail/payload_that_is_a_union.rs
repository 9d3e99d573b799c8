use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved")]
union OrderApproved {
    order: u64,
    id: u32,
}

fn main() {}
