//! A folder to run the program in, and the running program.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const PAUSE: Duration = Duration::from_millis(20);
/// Twenty seconds: far longer than anything here takes, on any machine.
const PAUSES_MAX: u32 = 1000;

/// A separate folder with its own database.
pub(crate) struct Desk(TempDir);

/// The result of a finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
        command.args(args).current_dir(self.0.path()).env_remove("RUST_LOG");
        // The program must not inherit the variables of the tests.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTROOM_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end, with these variables.
    pub(crate) fn run_in(&self, environment: &[(&str, &str)], args: &[&str]) -> Ran {
        Ran::from(self.command(args).envs(environment.iter().copied()).output().unwrap())
    }

    /// Writes a file in the folder, readable only by its owner.
    pub(crate) fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// The same, with text on stdin.
    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed, and returns its output without the newline.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout.trim_end().to_owned()
    }

    /// Runs a command that must succeed with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Changes the database directly.
    pub(crate) fn sql(&self, sql: &str) {
        let conn = rusqlite::Connection::open(self.path("postroom.db")).unwrap();
        conn.busy_timeout(PAUSE * PAUSES_MAX).unwrap();
        conn.execute_batch(&sql.replace("NOW", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)")).unwrap();
    }

    /// The number of outbox messages in that state.
    pub(crate) fn outbox(&self, state: &str) -> u64 {
        self.json(&["stats"])["outbox"][state].as_u64().unwrap()
    }

    /// The number of ready and leased messages, counted together.
    pub(crate) fn unsettled(&self) -> u64 {
        let outbox = &self.json(&["stats"])["outbox"];
        outbox["ready"].as_u64().unwrap() + outbox["leased"].as_u64().unwrap()
    }

    /// Starts a command in the background.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_with(args, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut child = self.command(args).envs(variables.iter().copied()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Running { child, stdout, stderr }
    }

    /// The same, with a closed stdout.
    pub(crate) fn start_unread(&self, args: &[&str]) -> Running {
        let mut child = self.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let stderr = lines(child.stderr.take().unwrap());
        Running { child, stdout: mpsc::channel().1, stderr }
    }
}

impl From<std::process::Output> for Ran {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// The running program. Drop kills it.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// The next line of JSON it prints.
    pub(crate) fn next_json(&self) -> Value {
        serde_json::from_str(&self.stdout.recv_timeout(PAUSE * PAUSES_MAX).unwrap()).unwrap()
    }

    /// The next line it prints.
    pub(crate) fn next_line(&self) -> String {
        next_of(&self.stdout)
    }

    /// Waits for a line on stderr that contains `text`, and returns it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.stderr.recv_timeout(PAUSE * PAUSES_MAX).unwrap();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Its private memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// The rest of its stderr, after its end.
    pub(crate) fn rest_of_stderr(&self) -> String {
        self.stderr.iter().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut ended = None;
        until("the program has ended", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next line, if it comes in time.
pub(crate) fn next_of(lines: &Receiver<String>) -> String {
    lines.recv_timeout(PAUSE * PAUSES_MAX).unwrap()
}

/// The lines of a pipe, as they come.
pub(crate) fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Polls until the condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (_nobody, never) = mpsc::channel::<()>();
    for _ in 0..PAUSES_MAX {
        if is_so() {
            return;
        }
        let _ = never.recv_timeout(PAUSE);
    }
    panic!("not in time: {what}");
}
