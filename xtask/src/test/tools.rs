//! Third-party programs that tests run, in folders that are removed after the tests.

use std::path::{Path, PathBuf};
use std::{env, process::Command};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A program that pip installs, and the variable that tells the tests where it is.
struct Tool {
    variable: &'static str,
    /// The version is fixed, because its behaviour is a part of the test.
    package: &'static str,
    program: &'static str,
}

const TOOLS: [Tool; 2] = [
    // Schemathesis sends a node every request that the API description allows, and some that it does not.
    Tool { variable: "POSTROOM_TEST_SCHEMATHESIS", package: "schemathesis==4.32.5", program: "schemathesis" },
    // This Python has SQLite 3.39.3, the oldest available ready-made. It plays another program that uses the same
    // file.
    Tool { variable: "POSTROOM_TEST_OLD_SQLITE", package: "apsw==3.39.3.0", program: "python" },
];

/// The programs that could be installed, and the reasons why the others could not.
#[derive(Debug, Default)]
pub(super) struct Tools {
    installed: Vec<(&'static str, TempDir, PathBuf)>,
    missing: String,
}

impl Tools {
    /// Installs the programs that the environment does not already name.
    pub(super) fn install_unnamed() -> Self {
        let mut tools = Self::default();
        for Tool { variable, package, program } in TOOLS.iter().filter(|tool| env::var_os(tool.variable).is_none()) {
            match install(package, program) {
                Ok((folder, path)) => tools.installed.push((variable, folder, path)),
                Err(error) => {
                    tools.missing += &format!("{package} cannot be installed, name one in {variable}: {error:#}\n");
                }
            }
        }
        tools
    }

    /// Returns the variables that tell the tests where the programs are.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.installed.iter().map(|(variable, _, program)| (*variable, program.as_path()))
    }

    /// Returns one line for each missing program.
    pub(super) fn missing(&self) -> &str {
        &self.missing
    }
}

fn install(package: &str, program: &str) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("postroom-tools-").tempdir()?;
    let bin = folder.path().join("bin");
    run(Command::new("python3").args(["-m", "venv"]).arg(folder.path()))?;
    let mut pip = Command::new(bin.join("pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", package]))?;
    let program = bin.join(program);
    ensure!(program.exists(), "pip left no {}", program.display());
    Ok((folder, program))
}

fn run(command: &mut Command) -> Result<()> {
    let ran = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{}", said.lines().last().unwrap_or("it failed without a word"));
    Ok(())
}
