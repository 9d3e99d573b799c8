include!("messages/shop.rs");

async fn reserved(_: &mut Ctx<Memory>, _: Reserved) -> Result<(), HandlerError> {
    Ok(())
}

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: env("SHOP_SECRET") }
    handle Reserved => reserved;
}

fn main() {}
