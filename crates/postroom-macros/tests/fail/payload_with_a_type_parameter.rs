use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved")]
struct OrderApproved<T> {
    order: T,
}

fn main() {}
