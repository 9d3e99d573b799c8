include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: keys(shared()) as "2026-11" }
    handle Reserve => reserve;
}

fn main() {}
