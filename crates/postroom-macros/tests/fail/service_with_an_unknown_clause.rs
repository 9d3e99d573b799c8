include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    handel OrderCancelled => cancelled;
}

fn main() {}
