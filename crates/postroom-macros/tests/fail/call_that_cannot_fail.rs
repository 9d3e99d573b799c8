use postroom::{Ctx, Memory, push_call};

#[push_call("mail.send")]
async fn send_mail(_: &mut Ctx<Memory>, to: String) {
    let _ = to;
}

fn main() {}
