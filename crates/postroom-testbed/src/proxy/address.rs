//! The URL of a server behind a Unix socket, and the same with another socket.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{engine::Engine, mariadb, postgres};

/// A URL with a place in it that leads to the socket.
#[derive(Clone, Debug)]
pub(super) struct Address {
    engine: Engine,
    before: String,
    /// PostgreSQL's folder, or MariaDB's file.
    place: PathBuf,
    after: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (engine, key) = match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => (Engine::Postgres, "host=/"),
            Some(("mysql" | "mariadb", _)) => (Engine::MariaDb, "socket=/"),
            _ => bail!("not a server's URL: {url}"),
        };
        let at = url.find(key).with_context(|| format!("no Unix socket ({key}…) in {url}"))? + key.len() - 1;
        let (before, rest) = url.split_at(at);
        let (place, after) = rest.split_at(rest.find('&').unwrap_or(rest.len()));
        Ok(Self { engine, before: before.into(), place: place.into(), after: after.into() })
    }

    pub(super) fn engine(&self) -> Engine {
        self.engine
    }

    /// The same in another folder.
    pub(super) fn moved_to(&self, folder: &Path) -> Self {
        let place = match self.engine {
            Engine::Postgres => folder.to_path_buf(),
            Engine::MariaDb => folder.join(mariadb::SOCKET),
        };
        Self { place, ..self.clone() }
    }

    pub(super) fn url(&self) -> String {
        format!("{}{}{}", self.before, self.place.display(), self.after)
    }

    pub(super) fn socket(&self) -> PathBuf {
        match self.engine {
            Engine::Postgres => self.place.join(postgres::socket_name(self.port())),
            Engine::MariaDb => self.place.clone(),
        }
    }

    fn port(&self) -> u16 {
        let settings = self.before.split(['?', '&']).chain(self.after.split('&'));
        let mut ports = settings.filter_map(|setting| setting.strip_prefix("port=")?.parse().ok());
        ports.next().unwrap_or(postgres::PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_found_and_replaced() {
        let address = Address::parse("postgres:///postgres?host=/a/b&port=5433&user=postgres").unwrap();
        assert_eq!(address.socket(), Path::new("/a/b/.s.PGSQL.5433"));
        let moved = address.moved_to(Path::new("/c"));
        assert_eq!(moved.url(), "postgres:///postgres?host=/c&port=5433&user=postgres");
        assert_eq!(moved.socket(), Path::new("/c/.s.PGSQL.5433"));

        let address = Address::parse("mysql://root@localhost/postroom?socket=/a/my.sock").unwrap();
        assert_eq!(address.socket(), Path::new("/a/my.sock"));
        assert_eq!(address.moved_to(Path::new("/c")).url(), "mysql://root@localhost/postroom?socket=/c/mysql.sock");
    }

    #[test]
    fn other_urls_are_refused() {
        for url in ["postgres://localhost/postgres", "mysql://localhost/a", "sqlite:///a?host=/b", "host=/a"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
