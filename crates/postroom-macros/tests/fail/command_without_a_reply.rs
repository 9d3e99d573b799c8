use postroom::Command;

#[derive(Command)]
#[command("stock.reserve")]
struct Reserve {
    order: u64,
}

fn main() {}
