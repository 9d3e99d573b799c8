use postroom::{Ctx, HandlerError, push_call};
use postroom::handler::Backend;

struct Mailer;

#[push_call]
impl Mailer {
    #[push_call("mail.greet")]
    async fn greet<B: Backend>(&self, _: &mut Ctx<B>) -> Result<(), HandlerError> {
        Ok(())
    }

    #[push_call("mail.copy")]
    async fn copy(&self, other: Self) -> Result<(), HandlerError> {
        let _ = other;
        Ok(())
    }

    #[push_call("mail.send")]
    async fn send(&self, #[serde(default)] to: String) -> Result<(), HandlerError> {
        let _ = to;
        Ok(())
    }
}

fn main() {}
