include!("messages/shop.rs");

service! {
    handle OrderCancelled => cancelled;
}

fn main() {}
