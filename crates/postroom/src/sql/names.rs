//! What the tables are called: the only text that is ever put into a statement instead of bound to it.

use crate::error::{Error, Result};
use crate::queue::Queue;

const NAME_BYTES_MAX: usize = 48;

/// The names of the two tables; the tables beside them are named after these.
///
/// ```
/// use postroom::TableNames;
///
/// assert!(TableNames::new("orders_outbox", "orders_inbox").is_ok());
/// assert!(TableNames::new("outbox; DROP TABLE orders", "inbox").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TableNames {
    outbox: String,
    inbox: String,
}

impl TableNames {
    /// Names of one's own: a letter or `_`, then letters, digits and `_`, at most 48 in all.
    pub fn new(outbox: impl Into<String>, inbox: impl Into<String>) -> Result<Self> {
        let names = Self { outbox: outbox.into(), inbox: inbox.into() };
        check("the outbox table's name", &names.outbox)?;
        check("the inbox table's name", &names.inbox)?;
        if names.outbox.eq_ignore_ascii_case(&names.inbox) {
            return Err(Error::invalid("the outbox and the inbox must be two tables"));
        }
        Ok(names)
    }

    /// The name of that queue's table.
    pub fn of(&self, queue: Queue) -> &str {
        match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        }
    }
}

/// `outbox_messages` and `inbox_messages`.
impl Default for TableNames {
    fn default() -> Self {
        Self { outbox: "outbox_messages".into(), inbox: "inbox_messages".into() }
    }
}

fn check(what: &str, name: &str) -> Result<()> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic());
    if starts_well && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {name:?}; allowed are a letter or _ and then letters, digits and _, at most {NAME_BYTES_MAX} in all"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier_and_nothing_else() {
        let long = "x".repeat(49);
        for bad in ["", "a b", "a;b", "a\"b", "a'b", "1a", "a-b", "größe", "a\0", "[a]", &long] {
            assert!(TableNames::new(bad, "inbox").is_err(), "{bad:?}");
            assert!(TableNames::new("outbox", bad).is_err(), "{bad:?}");
        }
        assert!(TableNames::new("same", "SAME").is_err());
        assert!(TableNames::new("_a1", "B_2").is_ok());
    }
}
