//! A lease as text.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::message::OwnerToken;
use crate::queue::Lease;
use crate::support::error::{Error, Result};

/// The version of UUIDs that are random.
const RANDOM: usize = 4;

/// A lease as text, for programs that hold a message outside this process. Its content is opaque.
///
/// ```
/// use postroom::queue::LeaseToken;
///
/// assert!("7.1.5f2b8e0c6a1c4c4e9d2f3b1a5c7e9f01".parse::<LeaseToken>().is_ok());
/// assert!("seven".parse::<LeaseToken>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LeaseToken {
    pub(super) seq: i64,
    pub(super) claim_no: i64,
    pub(super) owner: OwnerToken,
}

impl From<&Lease> for LeaseToken {
    fn from(lease: &Lease) -> Self {
        Self { seq: lease.seq, claim_no: lease.claim_no, owner: lease.owner }
    }
}

impl LeaseToken {
    /// Returns whether it is the token of this lease.
    pub(super) fn is_of(&self, lease: &Lease) -> bool {
        *self == Self::from(lease)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.seq, self.claim_no, self.owner.as_uuid().simple())
    }
}

impl FromStr for LeaseToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, '.');
        let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok()).filter(|number| *number >= 0);
        let numbers = number().zip(number());
        let uuid = parts.next().and_then(|part| Uuid::try_parse(part).ok());
        // The leases of workers are not accepted: their owner is in the log and can be guessed.
        let owner = uuid.filter(|uuid| uuid.get_version_num() == RANDOM).map(OwnerToken::from_uuid);
        match (numbers, owner) {
            (Some((seq, claim_no)), Some(Ok(owner))) => Ok(Self { seq, claim_no, owner }),
            _ => Err(Error::invalid("the lease token is not valid")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let token = LeaseToken { seq: 7, claim_no: 2, owner: OwnerToken::random() };
        assert_eq!(token.to_string().parse::<LeaseToken>().unwrap(), token);
        let owner = token.owner.as_uuid().simple();
        for bad in ["", "7", "7.2", "7.2.", "-7.2.x", &format!("-1.2.{owner}"), &format!("7.2.{owner}.1")] {
            assert!(bad.parse::<LeaseToken>().is_err(), "{bad}");
        }
        let worker = OwnerToken::new().as_uuid().simple();
        assert!(format!("7.2.{worker}").parse::<LeaseToken>().is_err(), "a worker's lease is no token");
        assert!(format!("7.2.{}", Uuid::nil()).parse::<LeaseToken>().is_err());
    }
}
