//! The names of the tables. They are the only text that is put into a statement instead of bound to it.

use sha2::{Digest, Sha256};

use crate::queue::Queue;
use crate::support::error::{Error, Result};

const NAME_BYTES_MAX: usize = 48;
/// The longest name of a channel on PostgreSQL. The server refuses longer ones.
const CHANNEL_BYTES_MAX: usize = 63;

/// The names of the two tables. The other tables are named after these.
///
/// ```
/// use postroom::sql::TableNames;
///
/// assert!(TableNames::new("orders_outbox", "orders_inbox").is_ok());
/// assert!(TableNames::new("outbox", "inbox").and_then(|names| names.in_schema("messaging")).is_ok());
/// assert!(TableNames::new("outbox; DROP TABLE orders", "inbox").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TableNames {
    schema: Option<String>,
    outbox: String,
    inbox: String,
}

impl TableNames {
    /// Sets other names: a letter or `_`, then letters, digits and `_`, at most 48 characters in all.
    pub fn new(outbox: impl Into<String>, inbox: impl Into<String>) -> Result<Self> {
        let names = Self { schema: None, outbox: outbox.into(), inbox: inbox.into() };
        check("the outbox table's name", &names.outbox)?;
        check("the inbox table's name", &names.inbox)?;
        if names.outbox.eq_ignore_ascii_case(&names.inbox) {
            return Err(Error::invalid("the outbox and the inbox must be two tables"));
        }
        Ok(names)
    }

    /// Puts the tables in this schema, where the database has schemas.
    pub fn in_schema(mut self, schema: impl Into<String>) -> Result<Self> {
        let schema = schema.into();
        check("the schema's name", &schema)?;
        self.schema = Some(schema);
        Ok(self)
    }

    /// Returns the name of the queue's table, without its schema.
    pub fn of(&self, queue: Queue) -> &str {
        match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        }
    }

    /// Returns the schema of both tables.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Returns `schema.`, or nothing.
    pub(crate) fn prefix(&self) -> String {
        self.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default()
    }

    /// Returns the PostgreSQL channel that wakes workers. It is the same in every process and every version of this
    /// library.
    pub(crate) fn channel(&self) -> String {
        let name = format!("postroom_{}{}", self.prefix(), self.outbox);
        if name.len() <= CHANNEL_BYTES_MAX {
            return name;
        }
        let digest = Sha256::digest(&name);
        let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("postroom_{hash}")
    }

    /// `infra.outbox` and `infra.inbox`: the default on PostgreSQL.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub fn infra_schema() -> Self {
        Self { schema: Some("infra".into()), outbox: "outbox".into(), inbox: "inbox".into() }
    }

    /// `infra.Outbox` and `infra.Inbox`: the default on SQL Server.
    #[cfg(feature = "tiberius-0_13")]
    pub fn infra_capitals() -> Self {
        Self { schema: Some("infra".into()), outbox: "Outbox".into(), inbox: "Inbox".into() }
    }

    /// `infra_outbox` and `infra_inbox`: the default on MySQL, where a schema would be another database.
    #[cfg(feature = "sqlx-0_9-mysql")]
    pub fn infra_prefix() -> Self {
        Self { schema: None, outbox: "infra_outbox".into(), inbox: "infra_inbox".into() }
    }
}

/// `outbox_messages` and `inbox_messages`: the default on SQLite.
impl Default for TableNames {
    fn default() -> Self {
        Self { schema: None, outbox: "outbox_messages".into(), inbox: "inbox_messages".into() }
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

    #[test]
    fn a_channel_has_a_name_that_the_server_takes() {
        let names = |schema: &str, outbox: &str| {
            let tables = TableNames::new(outbox, "inbox").and_then(|tables| tables.in_schema(schema));
            tables.unwrap().channel()
        };
        assert_eq!(names("infra", "outbox"), "postroom_infra.outbox");
        let (long, other) = ("s".repeat(48), "t".repeat(48));
        assert_eq!(names(&long, "tttttt").len(), "postroom_".len() + 32);
        assert_eq!(names(&long, "ttttt").len(), CHANNEL_BYTES_MAX, "the longest that is told as it is");
        assert_eq!(names(&long, &other), "postroom_42715fdb93f485c5a22d7d2b52b1da3f");
        assert_ne!(names(&long, &other), names(&other, &long));
    }
}
