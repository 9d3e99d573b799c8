//! Asks the user on the terminal before something large.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};

/// Whether somebody is there to answer.
pub(super) fn is_attended() -> bool {
    std::io::stdin().is_terminal()
}

/// Says what will happen, and returns whether the user wants it.
pub(super) fn asked(what: &str) -> Result<bool> {
    eprint!("{what}. Continue? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
