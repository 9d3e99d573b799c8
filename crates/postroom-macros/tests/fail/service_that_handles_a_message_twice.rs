include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: env("SHOP_SECRET") }
    handle Reserve => reserve;
    handle Reserve => reserve;
}

fn main() {}
