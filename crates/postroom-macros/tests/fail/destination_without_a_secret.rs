include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { url: "http://127.0.0.1:7002", sends: [Reserve] }
}

fn main() {}
