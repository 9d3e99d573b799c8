use postroom::{HandlerResult, push_call};

#[push_call("mail.send", lane = "mail-{subject}")]
async fn send_mail(to: String) -> HandlerResult<()> {
    println!("{to}");
    Ok(())
}

fn main() {}
