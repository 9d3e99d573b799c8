//! Runs a command for each message through `sh -c`, with the payload on stdin.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use postroom::queue::{Cause, Fault};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{HandlerResult, Message};

use super::group::Group;
use super::pipes::{Head, Tail, feed};
use super::queue_of;

/// `EX_DATAERR` of sysexits.h: the input is wrong, and a retry cannot help.
const TERMINAL: i32 = 65;
/// How long the pipes are still read after the command has exited, because a background process may keep them open.
const PIPES_TIME: Duration = Duration::from_millis(500);

/// The command that is run for each message.
#[derive(Clone)]
pub(crate) struct Command {
    text: String,
    timeout: Option<Duration>,
    /// Variables with secrets of the node, which the command does not get.
    hidden: Vec<String>,
}

/// The result of one run.
enum Ran {
    Done { response: Option<String> },
    Failed(Fault),
}

/// A message for another service goes to the same command.
impl Transport for Command {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            match self.run(message).await {
                Ran::Done { response } => Delivery::Accepted { response },
                Ran::Failed(fault) => fault.into(),
            }
        })
    }
}

impl Command {
    pub(crate) fn new(text: String, timeout: Option<Duration>, hidden: Vec<String>) -> Self {
        Self { text, timeout, hidden }
    }

    /// Handles a message for this service.
    pub(super) async fn handle(&self, message: &Message) -> HandlerResult<Option<String>> {
        match self.run(message).await {
            Ran::Done { response } => Ok(response),
            Ran::Failed(fault) => Err(fault.into()),
        }
    }

    async fn run(&self, message: &Message) -> Ran {
        let running = self.start(message);
        let ended = match self.timeout {
            None => running.await,
            Some(timeout) => match tokio::time::timeout(timeout, running).await {
                Ok(ended) => ended,
                Err(_) => {
                    let why = format!("the command took longer than {timeout:?} and was killed");
                    return Ran::Failed(Fault::new(Cause::HandlerFailed, why));
                }
            },
        };
        match ended {
            // This is not the fault of the message: no other message could be handled either.
            Err(error) => Ran::Failed(Fault::new(Cause::Unavailable, format!("cannot run the command: {error}"))),
            Ok((status, stdout, _)) if status.success() => Ran::Done { response: stdout.into_response() },
            Ok((status, _, stderr)) => {
                let why = told(status, &stderr);
                match status.code() {
                    Some(TERMINAL) => Ran::Failed(Fault::new(Cause::Refused, why).for_good()),
                    _ => Ran::Failed(Fault::new(Cause::HandlerFailed, why)),
                }
            }
        }
    }

    async fn start(&self, message: &Message) -> io::Result<(ExitStatus, Head, Tail)> {
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(&self.text).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in the terminal must stop this program but let running commands finish.
        #[cfg(unix)]
        command.process_group(0);
        for variable in &self.hidden {
            command.env_remove(variable);
        }
        for (name, value) in environment(message) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn()?;
        let mut group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut head, mut tail) = (Head::default(), Tail::default());
        let over = tokio::sync::Notify::new();
        let exit = async {
            let status = child.wait().await;
            group.is_over();
            over.notify_one();
            status
        };
        let pipes = async {
            let copying = async { tokio::join!(feed(stdin, &message.payload), head.read(stdout), tail.read(stderr)) };
            let left = async {
                over.notified().await;
                let _ = tokio::time::timeout(PIPES_TIME, std::future::pending::<()>()).await;
            };
            tokio::select! {
                _ = copying => {}
                () = left => {}
            }
        };
        let (status, ()) = tokio::join!(exit, pipes);
        Ok((status?, head, tail))
    }
}

/// The environment of the command; a variable without a value is removed.
fn environment(message: &Message) -> [(&'static str, Option<String>); 8] {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    [
        ("POSTROOM_QUEUE", Some(queue_of(message).as_str().to_owned())),
        ("POSTROOM_MESSAGE_ID", Some(message.id())),
        ("POSTROOM_TOPIC", Some(message.topic.clone())),
        ("POSTROOM_ATTEMPT", Some((message.attempts + 1).to_string())),
        ("POSTROOM_SOURCE", owned(message.source())),
        ("POSTROOM_DESTINATION", owned(message.destination())),
        ("POSTROOM_CORRELATION_ID", message.correlation_id.clone()),
        ("POSTROOM_LANE", message.lane.clone()),
    ]
}

fn told(status: ExitStatus, stderr: &Tail) -> String {
    let ended = status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
    match stderr.text() {
        text if text.is_empty() => ended,
        // Only the first line is logged, because stderr may quote the payload.
        text => format!("{ended}\n{text}"),
    }
}
