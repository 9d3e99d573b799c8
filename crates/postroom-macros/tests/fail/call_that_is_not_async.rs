use postroom::{Ctx, HandlerError, push_call};
use postroom::store::Memory;

#[push_call("mail.send")]
fn send_mail(_: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
