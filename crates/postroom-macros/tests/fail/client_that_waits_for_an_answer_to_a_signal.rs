include!("messages/shop.rs");

service! {
    struct Orders for "orders" on Memory;
    destination inventory { url: "in-process", sends: [OrderCancelled] }
}

async fn send(orders: Orders) -> postroom::Result<()> {
    orders.inventory().request(&OrderCancelled { order: 7 }).await?;
    Ok(())
}

fn main() {}
