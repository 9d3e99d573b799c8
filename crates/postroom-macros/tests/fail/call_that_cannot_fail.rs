use postroom::{Ctx, push_call};
use postroom::store::Memory;

#[push_call("mail.send")]
async fn send_mail(_: &mut Ctx<Memory>, to: String) {
    let _ = to;
}

fn main() {}
