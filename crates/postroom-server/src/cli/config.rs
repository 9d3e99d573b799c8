//! `postroom config`: prints and checks the configuration of a node.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Global;
use crate::{config, output};

/// Print or check the configuration of a node
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print a configuration file with every key, its default and its meaning
    Print,
    /// Check a configuration file and the environment, and summarise what `up` would do
    Check(Check),
}

#[derive(Args)]
struct Check {
    /// The file. The default is the file of --config, or postroom.toml
    path: Option<PathBuf>,

    /// Do not read the secrets; they may exist only on another machine
    #[arg(long)]
    without_secrets: bool,
}

impl Config {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        match self.command {
            Command::Print if global.json => output::json(&serde_json::json!({ "config": config::DEFAULT })),
            Command::Print => output::line(config::DEFAULT.trim_end()),
            Command::Check(check) => check.run(global),
        }
    }
}

impl Check {
    fn run(self, global: &Global) -> Result<()> {
        let config = config::load(self.path.as_deref().or(global.config()))?;
        if !self.without_secrets {
            config.open()?;
        }
        let database = match global.named_database() {
            Some(database) => Some(database?),
            None if self.without_secrets => config.database().ok(),
            None => Some(config.database()?),
        };
        database.as_ref().map_or(Ok(None), |database| config.backups(database))?;
        let database = database.map_or_else(|| "(a secret)".into(), |database| database.shown());
        let file = config.file.as_ref().map(|path| path.display().to_string());
        if global.json {
            return output::json(&serde_json::json!({
                "file": file, "node": config.name, "store": database,
                "runs": config.summary(), "doubts": config.doubts(),
            }));
        }
        output::line(format!("{}: valid", file.as_deref().unwrap_or("no file, only the defaults")))?;
        output::line(format!("  {} on {database}", config.name))?;
        config.summary().iter().try_for_each(|line| output::line(format!("  {line}")))?;
        config.doubts().iter().for_each(|doubt| eprintln!("note: {doubt}"));
        Ok(())
    }
}
