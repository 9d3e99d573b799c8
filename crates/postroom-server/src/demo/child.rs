//! The child processes of the demo: this program again. They stop with their parent.

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

/// A running process of the demo. Drop kills it.
pub(super) struct Process {
    child: Child,
    /// Kept separately: waiting for a child closes its stdin, which is the signal to finish.
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts this program with another command.
    pub(super) fn start(db: &Path, arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the executable of this program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--db").arg(db).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start this program again")?;
        Ok(Self { stdin: child.stdin.take(), child })
    }

    /// Waits for the line that says that it is ready.
    pub(super) async fn ready(mut self) -> Result<Self> {
        let stdout = self.child.stdout.take().context("the process has no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START_TIME, lines.next_line()).await {
            Ok(Ok(Some(line))) if line == READY => Ok(self),
            _ => bail!("the worker did not start"),
        }
    }

    /// Kills it with SIGKILL: it gets no chance to clean up.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("cannot kill the worker")
    }

    pub(super) async fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.context("cannot wait for a process")
    }

    /// Whether it has exited.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot check a process")?.is_some())
    }

    /// Lets it finish the messages in progress.
    pub(super) async fn drain(mut self) -> Result<()> {
        drop(self.stdin.take());
        match tokio::time::timeout(END_TIME, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => Ok(()),
            Ok(status) => bail!("the worker exited with {}", status?),
            Err(_) => self.kill().await,
        }
    }
}

/// Waits for the end of stdin: the parent is gone, or asks this process to finish.
pub(crate) async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    // A separate thread, because the runtime would wait for a blocking read at exit.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(());
    });
    let _ = wait.await;
}
