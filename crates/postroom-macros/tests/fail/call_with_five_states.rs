use postroom::handler::State;
use postroom::{HandlerResult, push_call};

#[push_call("mail.send")]
async fn send_mail(_: State<u8>, _: State<u16>, _: State<u32>, _: State<u64>, _last: State<i8>) -> HandlerResult<()> {
    Ok(())
}

fn main() {}
