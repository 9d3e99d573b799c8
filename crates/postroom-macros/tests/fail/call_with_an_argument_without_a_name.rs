use postroom::{Ctx, HandlerError, push_call};
use postroom::store::Memory;

#[push_call("mail.send")]
async fn send_mail(_: &mut Ctx<Memory>, (to, subject): (String, String)) -> Result<(), HandlerError> {
    let _ = (to, subject);
    Ok(())
}

fn main() {}
