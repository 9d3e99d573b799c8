//! Types that contain themselves where each value ends.

use postroom::{Payload, Signal};

#[derive(Signal, serde::Serialize, serde::Deserialize)]
#[signal("comment.written")]
struct Comment {
    text: String,
    answers: Vec<Comment>,
    thread: Option<Box<Thread>>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Thread {
    first: Comment,
}

pub(crate) fn main() {
    let answer = |text: &str, answers| Comment { text: text.into(), answers, thread: None };
    let first = answer("a", vec![answer("b", Vec::new())]);
    let written = Comment { thread: Some(Box::new(Thread { first })), ..answer("c", Vec::new()) };
    let message = written.outgoing().message().expect("it can be written");
    drop(message);
}
