use postroom::Signal;

#[derive(Signal)]
#[signal("order.approved")]
struct OrderApproved<'a> {
    order: &'a str,
}

fn main() {}
