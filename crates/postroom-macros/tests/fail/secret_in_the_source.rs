include!("messages/shop.rs");

service! {
    struct Inventory for "inventory" on Memory;
    source "orders" { secret: "do not tell anybody, not even the compiler" }
    handle Reserve => reserve;
}

fn main() {}
