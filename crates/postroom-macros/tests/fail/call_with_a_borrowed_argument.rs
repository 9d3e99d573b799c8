use postroom::{Ctx, HandlerError, push_call};
use postroom::store::Memory;

#[push_call("mail.send")]
async fn send_mail(_: &mut Ctx<Memory>, to: &str) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
