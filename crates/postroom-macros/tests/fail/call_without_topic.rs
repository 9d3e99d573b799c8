use postroom::{Ctx, HandlerError, Memory, push_call};

#[push_call]
async fn send_mail(_: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
