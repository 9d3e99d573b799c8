include!("messages/shop.rs");

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = ())]
struct Hold {
    order: u64,
}

async fn hold(_: &mut Ctx<Memory>, _: Hold) -> Result<(), HandlerError> {
    Ok(())
}

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: env("SHOP_SECRET") }
    handle Reserve => reserve;
    handle Hold => hold;
}

fn main() {}
