//! The databases that can be started.

use std::fmt;

use crate::program;

/// A database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB, which also stands for MySQL.
    MariaDb,
}

/// How much a server does for what was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing waits for the disk: committed data survives a killed server, but no power failure.
    Fast,
    /// A commit waits for the disk, as in production.
    Durable,
}

impl Engine {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::MariaDb];

    /// The environment variable that names a server to test against.
    pub fn url_variable(self) -> &'static str {
        match self {
            Self::Postgres => "POSTROOM_TEST_POSTGRES_URL",
            Self::MariaDb => "POSTROOM_TEST_MYSQL_URL",
        }
    }

    /// Fails when no server can be had on this machine, and says what to do; installs one where that is possible.
    pub fn check_installed(self) -> anyhow::Result<()> {
        program::of_server(self).map(drop)
    }

    /// The accounts that a server prefers when we are root, best first: neither database runs as root.
    pub(crate) fn accounts(self) -> [&'static str; 2] {
        match self {
            Self::Postgres => ["postgres", "nobody"],
            Self::MariaDb => ["mysql", "nobody"],
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        })
    }
}
