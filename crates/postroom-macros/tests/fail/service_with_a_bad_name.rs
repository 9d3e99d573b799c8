include!("messages/shop.rs");

service! {
    struct Orders for "Orders!" on Memory;
    handle OrderCancelled => cancelled;
}

fn main() {}
