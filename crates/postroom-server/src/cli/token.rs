//! `postroom token`: creates a token for the admin listener and its section of the configuration.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::clock::Clock;

use super::Global;
use crate::admin::{Rights, generate};
use crate::problem::Problem;
use crate::{config, duration, output};

/// Create a token for a service or an operator, and print its section of the configuration
///
/// The token goes to stdout and the section to stderr. The section holds only a digest of the token; keep the token
/// with your other secrets. To activate it, add the section to the configuration and send SIGHUP to the node.
#[derive(Args)]
pub(crate) struct Token {
    /// The name of the token: who uses it. The audit trail shows this name
    name: String,

    /// What it may do: enqueue, pull, pull:TOPIC, read, payload or operate, separated by commas
    #[arg(long, value_name = "SCOPES", required = true, value_delimiter = ',')]
    may: Vec<String>,

    /// How long it is valid. Without this option it is valid until its section is removed
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    expires: Option<Duration>,
}

impl Token {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        if !config::is_name(&self.name) {
            let what = format!("{:?} is not a valid name for a token", self.name);
            bail!(Problem::new(what, format!("a name like `orders`; it must be {}", config::NAME_RULE)));
        }
        let words: Vec<_> = self.may.iter().map(|word| word.trim()).collect();
        let help = "`postroom token --help`, which lists the scopes";
        Rights::new(&self.name, &words).map_err(|why| Problem::new(format!("--may: {why}"), help))?;
        let (token, digest) = generate();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let expires = self.expires.map(|span| Clock::Database.now().plus(span).to_string());
        if global.json {
            return output::json(&serde_json::json!({
                "name": self.name, "token": token, "digest": digest, "may": words, "expires": expires,
            }));
        }
        eprintln!("Add this to the configuration of the node, then send it SIGHUP or restart it:\n");
        eprintln!("[tokens.{}]\ndigests = [\"{digest}\"]\nmay = {words:?}", bare(&self.name));
        if let Some(expires) = expires {
            eprintln!("expires = \"{expires}\"");
        }
        eprintln!("\nThe token (it is not shown again):");
        output::line(token)
    }
}

/// The name as it is written in the title of a section.
fn bare(name: &str) -> String {
    if name.contains('.') { format!("{name:?}") } else { name.to_owned() }
}
