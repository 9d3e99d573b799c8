//! The databases that can be started.

use std::fmt;

use crate::program;

/// A database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB, which is also used for tests of MySQL.
    MariaDb,
}

/// How durable a server's commits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing waits for the disk: committed data survives a killed server, but not a power failure.
    Fast,
    /// A commit waits for the disk, as in production.
    Durable,
}

impl Engine {
    /// Both databases.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::MariaDb];

    /// Returns the environment variable that names a server to test against.
    pub fn url_variable(self) -> &'static str {
        match self {
            Self::Postgres => "POSTROOM_TEST_POSTGRES_URL",
            Self::MariaDb => "POSTROOM_TEST_MYSQL_URL",
        }
    }

    /// Fails if this machine can have no server, and says what to do. It installs the server where that is possible.
    pub fn check_installed(self) -> anyhow::Result<()> {
        program::of_server(self).map(drop)
    }

    /// Returns the preferred accounts if we are root, best first: neither database runs as root.
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
