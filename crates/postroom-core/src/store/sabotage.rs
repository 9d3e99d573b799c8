//! Guards that can be removed at run time, to show that the tests would notice.

use std::str::FromStr;

use crate::support::error::{Error, Result};

/// A guard to remove.
///
/// ```
/// use postroom::testing::Sabotage;
///
/// // Passed to a store's options, it shows that a test would notice the missing guard.
/// let guard: Sabotage = "fencing".parse()?;
/// assert_eq!(guard, Sabotage::Fencing);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// A settle no longer checks that the lease is still held.
    Fencing,
    /// The handler's writes commit first, and the ack commits afterwards in its own transaction.
    AckOutside,
}

impl FromStr for Sabotage {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "fencing" => Ok(Self::Fencing),
            "ack-outside" => Ok(Self::AckOutside),
            _ => Err(Error::invalid(format!("no guard is called {name:?}; there are fencing and ack-outside"))),
        }
    }
}
