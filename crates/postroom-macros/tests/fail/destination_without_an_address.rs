include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { secret: env("SHOP_SECRET"), sends: [Reserve] }
}

fn main() {}
