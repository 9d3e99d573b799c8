use postroom::{HandlerError, push_call};

#[push_call("mail.send")]
async fn send_mail<T: Send>(to: String) -> Result<(), HandlerError> {
    let _ = to;
    Ok(())
}

fn main() {}
