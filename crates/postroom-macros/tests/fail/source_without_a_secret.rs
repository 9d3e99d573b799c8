include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" {}
    handle Reserve => reserve;
}

fn main() {}
