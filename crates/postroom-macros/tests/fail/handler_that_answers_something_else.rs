include!("messages/shop.rs");

async fn reserve_nothing(_: &mut Ctx<Memory>, _: Reserve) -> Result<u64, HandlerError> {
    Ok(1)
}

fn main() {
    let _ = postroom::Handlers::new().on(reserve_nothing);
}
