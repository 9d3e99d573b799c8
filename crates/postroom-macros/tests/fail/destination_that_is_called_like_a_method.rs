include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination stop { url: "in-process", sends: [Reserve] }
}

fn main() {}
