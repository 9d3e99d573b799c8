use postroom::{HandlerError, push_call};

struct Mailer;

#[push_call]
impl Mailer {
    async fn send_mail(&self, to: String) -> Result<(), HandlerError> {
        let _ = to;
        Ok(())
    }
}

fn main() {}
