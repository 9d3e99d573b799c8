use postroom::{HandlerError, push_call};

#[push_call("mail.send")]
async fn send_mail(to: String, #[cfg(unix)] uid: u32) -> Result<(), HandlerError> {
    let _ = (to, uid);
    Ok(())
}

fn main() {}
