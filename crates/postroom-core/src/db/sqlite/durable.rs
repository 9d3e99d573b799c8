//! Whether the commits of a connection survive a power cut.

use crate::support::error::{Error, ErrorKind, Result};

/// `PRAGMA synchronous` of a connection whose commits survive a power cut.
const SYNCHRONOUS_FULL: i64 = 2;

/// Asks a connection how durable its commits are.
pub(crate) const SYNCHRONOUS: &str = "PRAGMA synchronous";

/// Refuses a level at which commits can be lost.
pub(crate) fn check_synchronous(level: i64) -> Result<()> {
    if level >= SYNCHRONOUS_FULL {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this connection's commits can be lost in a power cut: the answer could be sent for work that is then lost. \
         Run PRAGMA synchronous = FULL on it first",
    ))
}
