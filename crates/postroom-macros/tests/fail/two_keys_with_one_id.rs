include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: [env("NEW"), env("OLD")] }
    handle Reserve => reserve;
}

fn main() {}
