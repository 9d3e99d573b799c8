use postroom::push_call;

#[push_call("mail.send")]
struct Mailer;

fn main() {}
