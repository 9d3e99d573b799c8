//! Who does something to messages, and why: for the audit trail.

use anyhow::Result;
use clap::Args;
use postroom::Operator;

/// Who does it, when neither the command line nor the machine says so.
const UNKNOWN: &str = "unknown";

#[derive(Args)]
pub(crate) struct Signed {
    /// Why; kept in the audit trail
    #[arg(long, value_name = "REASON")]
    why: Option<String>,

    /// Who does it, for the audit trail; the user of this machine unless told otherwise
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Signed {
    /// The operator who chose these messages.
    pub(crate) fn operator(&self, chosen: &[(&str, Option<&str>)]) -> Result<Operator> {
        let by = self.by.clone().or_else(user).unwrap_or_else(|| UNKNOWN.into());
        let operator = Operator::new(by)?.chose(words(chosen))?;
        Ok(match &self.why {
            Some(why) => operator.because(why)?,
            None => operator,
        })
    }
}

/// What was chosen, in words.
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
