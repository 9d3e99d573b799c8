include!("messages/shop.rs");

service! {
    #[cfg(unix)]
    struct Orders for "orders" on Memory;
    destination inventory { url: "in-process", sends: [Reserve] }
}

fn main() {}
