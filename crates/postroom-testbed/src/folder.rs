//! The folder of a server, and commands that run in it under the server's account.

use std::{
    env,
    fs::Permissions,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{account, engine::Engine};

/// The path of a Unix socket can be no longer.
const LONGEST_SOCKET_PATH: usize = 107;
const LONGEST_SOCKET_NAME: usize = ".s.PGSQL.65535".len();

#[derive(Debug)]
pub(crate) struct Folder {
    dir: TempDir,
    account: Option<account::Account>,
}

impl Folder {
    pub(crate) fn create(engine: Engine) -> Result<Self> {
        Self::owned_by(&engine.accounts())
    }

    /// Creates a folder that belongs to the first of these accounts that exists, if we are root.
    pub(crate) fn owned_by(accounts: &[&str]) -> Result<Self> {
        let account = account::instead_of_root(accounts)?;
        // The folder is closed to others, because the servers accept everybody who reaches their sockets.
        let mut dir = tempfile::Builder::new();
        let dir = dir.prefix("pr-").permissions(Permissions::from_mode(0o700)).tempdir();
        let dir = dir.context("no temporary folder")?;
        let length = dir.path().as_os_str().len() + 1 + LONGEST_SOCKET_NAME;
        ensure!(length <= LONGEST_SOCKET_PATH, "{} is too long for a socket: set TMPDIR", dir.path().display());
        if let Some(account) = account {
            chown(dir.path(), Some(account.uid), Some(account.gid)).context("cannot give the folder away")?;
        }
        Ok(Self { dir, account })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command that runs here under the server's account, without the caller's settings for database
    /// clients.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.path()).env_clear().env("LC_ALL", "C");
        if let Some(path) = env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// Runs a command to its end. Its output is part of the error.
    pub(crate) fn run<A: AsRef<str>>(&self, program: &Path, args: impl IntoIterator<Item = A>) -> Result<()> {
        let name = program.display();
        let mut command = self.command(program);
        for arg in args {
            command.arg(arg.as_ref());
        }
        let output = command.output().with_context(|| format!("cannot start {name}"))?;
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{name} ended with {}:\n{said}{complained}", output.status);
        Ok(())
    }
}
