use postroom::{HandlerError, push_call};

struct Mailer;

impl Mailer {
    #[push_call("mail.send")]
    async fn send_mail(&self, to: String) -> Result<(), HandlerError> {
        let _ = to;
        Ok(())
    }
}

fn main() {}
