use postroom::Command;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = Reserved)]
struct Reserve {
    order: u64,
}

struct Reserved;

fn main() {}
