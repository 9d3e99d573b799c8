//! Who changes messages and why, for the audit trail.

use anyhow::Result;
use clap::Args;
use postroom::operator::Operator;

/// The name if neither the command line nor the environment has one.
const UNKNOWN: &str = "unknown";

#[derive(Args)]
pub(crate) struct Signed {
    /// The reason, for the audit trail
    #[arg(long, value_name = "REASON")]
    why: Option<String>,

    /// Your name, for the audit trail. The default is the user of this machine
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Signed {
    /// The operator, with the selection of messages.
    pub(crate) fn operator(&self, chosen: &[(&str, Option<&str>)]) -> Result<Operator> {
        Ok(self.bare()?.chose(words(chosen))?)
    }

    /// The operator of something that is not about a selection of messages.
    pub(crate) fn bare(&self) -> Result<Operator> {
        let by = self.by.clone().or_else(user).unwrap_or_else(|| UNKNOWN.into());
        let operator = Operator::new(by)?;
        Ok(match &self.why {
            Some(why) => operator.because(why)?,
            None => operator,
        })
    }
}

/// The selection in words.
pub(crate) fn words(chosen: &[(&str, Option<&str>)]) -> String {
    let told = chosen.iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}")));
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() { "all".into() } else { told }
}

/// The user of this machine.
pub(crate) fn user() -> Option<String> {
    let named = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.trim().is_empty())
}
