use postroom::{Ctx, HandlerError, push_call};

#[push_call("mail.send")]
async fn send_mail(_: &mut Ctx, to: String) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
