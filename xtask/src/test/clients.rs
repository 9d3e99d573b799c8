//! The packages for other languages. Each is built, installed as its users do, and tested against the node and the
//! databases of this run.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::tally::Tally;
use crate::run;

/// A package, and the program that its tests cannot do without.
struct Client {
    folder: &'static str,
    needs: &'static str,
}

const CLIENTS: [Client; 2] =
    [Client { folder: "clients/python", needs: "python3" }, Client { folder: "clients/typescript", needs: "npm" }];

/// Runs the tests of the packages, and adds their counts.
pub(super) fn run(variables: &[(&'static str, String)], tally: &mut Tally, mut copy: impl Write) -> Result<()> {
    for Client { folder, needs } in CLIENTS {
        if Command::new(needs).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            tally.skip(folder, &format!("install {needs}"));
            continue;
        }
        writeln!(copy, "\n     Running {folder}/run-tests")?;
        let work = tempfile::Builder::new().prefix("postroom-client-").tempdir()?;
        let mut command = Command::new(run::root().join(folder).join("run-tests"));
        command.arg(work.path()).env("POSTROOM_BIN", run::target().join("debug/postroom"));
        command.envs(variables.iter().map(|(name, value)| (name, value))).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {folder}/run-tests"))?;
        let output = child.stdout.take().context("it has no output")?;
        let mut last = String::new();
        for line in BufReader::new(output).lines() {
            last = line?;
            writeln!(copy, "{last}")?;
        }
        let succeeded = child.wait()?.success();
        tally.add_program(folder, &last, succeeded);
    }
    Ok(())
}
