include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: env("SHOP_SECRET") as "november 2026" }
    handle Reserve => reserve;
}

fn main() {}
