//! What the macros write refers to this: not for programs.

use std::env::VarError;

pub use serde;
use serde::Serialize;

use postroom_core::message::Payload;
use postroom_core::support::error::{Error, Result};
pub use postroom_core::work::handler::Needed;

/// Whether two topics are the same, before the program runs.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Text from an environment variable, or what stands for it.
pub fn env(variable: &str, otherwise: Option<&str>) -> Result<String> {
    match (std::env::var(variable), otherwise) {
        (Ok(text), _) => Ok(text),
        (Err(VarError::NotPresent), Some(otherwise)) => Ok(otherwise.to_owned()),
        (Err(VarError::NotPresent), None) => {
            Err(Error::invalid(format!("the environment variable {variable} is not set")))
        }
        (Err(VarError::NotUnicode(_)), _) => {
            Err(Error::invalid(format!("the environment variable {variable} is not UTF-8")))
        }
    }
}

/// A message that nobody sends.
#[derive(Debug, Serialize, serde::Deserialize)]
pub enum Nothing {}

impl Payload for Nothing {
    const TOPIC: &'static str = "nothing";
    type Reply = ();
}
