include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { url: "in-process", sends: [Reserve] }
}

async fn send(orders: Orders) -> postroom::Result<()> {
    orders.inventory().send(&OrderCancelled { order: 7 }).await?;
    Ok(())
}

fn main() {}
