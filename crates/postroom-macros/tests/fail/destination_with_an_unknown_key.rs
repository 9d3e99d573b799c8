include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { url: "in-process", secrte: env("SHOP_SECRET"), sends: [Reserve] }
}

fn main() {}
