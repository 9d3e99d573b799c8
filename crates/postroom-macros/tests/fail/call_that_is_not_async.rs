use postroom::{Ctx, HandlerError, Memory, push_call};

#[push_call("mail.send")]
fn send_mail(_: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
