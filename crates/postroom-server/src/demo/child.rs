//! The demonstration's processes: this program again, ended with its parent.

use std::io::Read;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::worker::READY;

const START_TIME: Duration = Duration::from_secs(10);
const END_TIME: Duration = Duration::from_secs(10);

/// A running process of the demonstration. Killed when it is dropped.
pub(super) struct Process {
    child: Child,
    /// Kept apart: waiting for a child closes its stdin, which is the sign to finish.
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts this program with another command.
    pub(super) fn start(db: &Path, arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--db").arg(db).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start this program again")?;
        Ok(Self { stdin: child.stdin.take(), child })
    }

    /// Waits for the line that says that it works.
    pub(super) async fn ready(mut self) -> Result<Self> {
        let stdout = self.child.stdout.take().context("the process has no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START_TIME, lines.next_line()).await {
            Ok(Ok(Some(line))) if line == READY => Ok(self),
            _ => bail!("the worker did not start"),
        }
    }

    /// Ends it with SIGKILL: it can do nothing more, not even say goodbye.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("cannot kill the worker")
    }

    pub(super) async fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.context("cannot wait for a process")
    }

    /// Whether it ended by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot ask for a process")?.is_some())
    }

    /// Lets it finish what it has in hand.
    pub(super) async fn drain(mut self) -> Result<()> {
        drop(self.stdin.take());
        match tokio::time::timeout(END_TIME, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => Ok(()),
            Ok(status) => bail!("the worker ended with {}", status?),
            Err(_) => self.kill().await,
        }
    }
}

/// Ready when stdin is at its end: the parent is gone, or wants this process to finish.
pub(crate) async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    // A thread of its own: the runtime would wait for a blocking read before it ends.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(());
    });
    let _ = wait.await;
}
