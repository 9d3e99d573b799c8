include!("messages/shop.rs");

async fn answered(_: &mut Ctx<Memory>, _: OrderCancelled) -> Result<u64, HandlerError> {
    Ok(1)
}

fn main() {
    let _ = postroom::Handlers::new().on(answered);
}
