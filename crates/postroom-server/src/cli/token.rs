//! `postroom token`: a token for the admin listener, and the section that allows it.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use postroom::Clock;

use super::Global;
use crate::admin::{Rights, generate};
use crate::problem::Problem;
use crate::{config, duration, output};

/// Make a token for services or operators, and the section of the configuration that allows it
///
/// The token goes to stdout, the section to stderr. Only its digest stands in the section: keep the token where its
/// user keeps secrets. A running node takes it after the section was added and SIGHUP sent.
#[derive(Args)]
pub(crate) struct Token {
    /// What it is called: who uses it. The audit trail tells this name
    name: String,

    /// What it may do: enqueue, pull, pull:TOPIC, read, payload, operate; several are separated by commas
    #[arg(long, value_name = "SCOPES", required = true, value_delimiter = ',')]
    may: Vec<String>,

    /// How long it is good; without this, until its section is removed
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    expires: Option<Duration>,
}

impl Token {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        if !config::is_name(&self.name) {
            let what = format!("{:?} is no name of a token", self.name);
            bail!(Problem::new(what, format!("a name like `orders`; it must be {}", config::NAME_RULE)));
        }
        let words: Vec<_> = self.may.iter().map(|word| word.trim()).collect();
        Rights::new(&self.name, &words).map_err(|why| anyhow!("--may: {why}"))?;
        let (token, digest) = generate();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let expires = self.expires.map(|span| Clock::Database.now().plus(span).to_string());
        if global.json {
            return output::json(&serde_json::json!({
                "name": self.name, "token": token, "digest": digest, "may": words, "expires": expires,
            }));
        }
        eprintln!("Add this to the configuration of the node, and send it SIGHUP or start it again:\n");
        eprintln!("[tokens.{}]\ndigests = [\"{digest}\"]\nmay = {words:?}", bare(&self.name));
        if let Some(expires) = expires {
            eprintln!("expires = \"{expires}\"");
        }
        eprintln!("\nThe token, which is shown only now:");
        output::line(token)
    }
}

/// The name as it stands in the title of a section.
fn bare(name: &str) -> String {
    if name.contains('.') { format!("{name:?}") } else { name.to_owned() }
}
