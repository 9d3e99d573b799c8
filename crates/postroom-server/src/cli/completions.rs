//! `postroom completions` and `postroom man`: shell completions and manual pages.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Global};
use crate::output;
use crate::problem::Problem;

/// Print a completion script for a shell
///
/// For example: postroom completions bash > ~/.local/share/bash-completion/completions/postroom
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "postroom", &mut script);
        let script = String::from_utf8(script).context("the script is not text")?;
        if global.json {
            return output::json(&serde_json::json!({ "shell": self.shell.to_string(), "script": script }));
        }
        output::line(script.trim_end())
    }
}

/// Print the manual page of this program or of one command, for `man -l -`
#[derive(Args)]
pub(crate) struct Man {
    /// The command. Without it, the page of the whole program
    command: Option<String>,

    /// Write all pages into this folder instead: postroom.1, postroom-send.1 and so on
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        let mut program = Cli::command();
        program.build();
        if let Some(dir) = self.dir {
            clap_mangen::generate_to(program, &dir).with_context(|| format!("cannot write into {}", dir.display()))?;
            return if global.json {
                output::json(&serde_json::json!({ "dir": dir }))
            } else {
                output::line(format!("wrote the manual pages to {}", dir.display()))
            };
        }
        let command = match &self.command {
            None => program,
            Some(name) => match program.get_subcommands().find(|command| command.get_name() == name) {
                Some(command) => command.clone(),
                None => {
                    bail!(Problem::new(format!("there is no command {name}"), "`postroom --help`, which lists them"))
                }
            },
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).context("cannot write the page")?;
        let page = String::from_utf8(page).context("the page is not text")?;
        if global.json {
            return output::json(&serde_json::json!({ "page": page }));
        }
        output::line(page.trim_end())
    }
}
