use postroom::{Command, Signal};

#[derive(Signal)]
#[signal("order.approved", lane = "order-{odrer}")]
struct OrderApproved {
    order: u64,
}

#[derive(Command)]
#[command("stock.change", reply = u64, lane = "{item}")]
enum ChangeStock {
    Add { item: String },
    Clear,
}

fn main() {}
