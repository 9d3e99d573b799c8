use postroom::{HandlerError, push_call};

#[push_call("mail.send")]
async fn _1() -> Result<(), HandlerError> {
    Ok(())
}

fn main() {}
