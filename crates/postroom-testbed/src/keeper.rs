//! A shell between us and a server. It ends the server when we end, even if we are killed.
//!
//! A signal on the parent's death would not work: Linux sends it when the thread that started the server ends.

use std::{
    convert::Infallible,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::folder::Folder;

const SCRIPT: &str = include_str!("keeper.sh");

/// A running server and its keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    /// Closing this makes the keeper end the server and remove its folder.
    orders: Option<ChildStdin>,
    server: Pid,
    /// This closes when the last of the server's processes is gone; nothing is ever sent.
    gone: Receiver<Infallible>,
}

impl Keeper {
    /// Starts a server. `parting` is the signal that ends it when nobody needs its data any more.
    pub(crate) fn start(folder: &Folder, parting: &str, server: &[String]) -> Result<Self> {
        let mut shell = folder.command("/bin/sh");
        shell.args(["-c", SCRIPT, "keeper"]).arg(folder.path()).arg(parting).args(server);
        // The shell has its own process group, so a Ctrl-C at the terminal reaches it only through us.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().context("cannot start the server's keeper")?;
        let orders = shell.stdin.take();
        let mut output = BufReader::new(shell.stdout.take().context("the keeper has no output")?);
        let mut pid = String::new();
        output.read_line(&mut pid)?;
        let server = pid.trim().parse().ok().and_then(Pid::from_raw).context("the keeper started no server")?;
        let (alive, gone) = mpsc::channel();
        thread::spawn(move || {
            let _ = output.read_to_end(&mut Vec::new());
            drop(alive);
        });
        Ok(Self { shell, orders, server, gone })
    }

    pub(crate) fn server(&self) -> Pid {
        self.server
    }

    /// Returns whether the server ended within this time.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        matches!(self.gone.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
    }

    /// Sends the server a signal and waits until it has ended. Its folder stays.
    pub(crate) fn end(mut self, signal: Signal) -> Result<()> {
        // The server may already have ended.
        let _ = kill_process(self.server, signal);
        self.finish()
    }

    /// Kills all of the server's processes at once, like a crash of the machine, and waits until they are gone.
    pub(crate) fn kill(mut self) -> Result<()> {
        // A stopped server starts no further process while we list its children. It may have started one before it
        // stopped, so they are listed until nothing is new: a child that is left may wait forever for a lock.
        let _ = kill_process(self.server, Signal::STOP);
        let mut killed = Vec::new();
        loop {
            let new: Vec<_> = children(self.server).into_iter().filter(|child| !killed.contains(child)).collect();
            if new.is_empty() {
                break;
            }
            for child in &new {
                let _ = kill_process(*child, Signal::KILL);
            }
            killed.extend(new);
        }
        let _ = kill_process(self.server, Signal::KILL);
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let _ = self.gone.recv();
        if let Some(mut orders) = self.orders.take() {
            orders.write_all(b"it ended\n").context("the keeper is gone")?;
        }
        self.shell.wait().context("the keeper did not end")?;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// Returns the processes that a server started. Only Linux lists them; elsewhere they end when they notice that the
/// server is gone.
fn children(server: Pid) -> Vec<Pid> {
    let server = server.as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}
