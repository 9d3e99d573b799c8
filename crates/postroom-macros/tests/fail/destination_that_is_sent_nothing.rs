include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { url: "in-process", sends: [] }
}

fn main() {}
