// What the services in these cases send each other.

#[allow(unused_imports, reason = "not every case has a service")]
use postroom::{Command, Ctx, HandlerError, Signal, service};
use postroom::store::Memory;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = Reserved)]
struct Reserve {
    order: u64,
}

#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: String,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.cancelled")]
struct OrderCancelled {
    order: u64,
}

async fn reserve(_: &mut Ctx<Memory>, _: Reserve) -> Result<Reserved, HandlerError> {
    Ok(Reserved { shelf: String::new() })
}

async fn cancelled(_: &mut Ctx<Memory>, _: OrderCancelled) -> Result<(), HandlerError> {
    Ok(())
}
