include!("messages/shop.rs");

async fn reserve_nothing(_: &mut Ctx<Memory>, _: Reserve) -> Result<u64, HandlerError> {
    Ok(1)
}

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: env("SHOP_SECRET") }
    handle Reserve => reserve_nothing;
}

fn main() {}
