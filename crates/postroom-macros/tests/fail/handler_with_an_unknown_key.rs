include!("messages/shop.rs");

async fn cancel(_: &mut Ctx<Memory>, _: OrderCancelled) -> Result<(), HandlerError> {
    Ok(())
}

service! {
    struct Orders for "orders" on Memory;
    handle OrderCancelled => cancel { concurency: 2 }
}

fn main() {}
