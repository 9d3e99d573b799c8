//! The URL of a server, and the same URL with another place: a Unix socket, or for SQL Server a port.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::{mariadb, postgres};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Postgres,
    MySql,
    Tds,
}

/// A URL that contains the place of the server.
#[derive(Clone, Debug)]
pub(super) struct Address {
    wire: Wire,
    before: String,
    /// PostgreSQL's folder, MariaDB's file, or SQL Server's host and port.
    place: PathBuf,
    after: String,
}

/// A connection, whatever it goes through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The listener for clients.
pub(super) enum Door {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Door {
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Socket(listener) => Box::new(listener.accept().await?.0),
            Self::Port(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (wire, key) = match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => (Wire::Postgres, "host=/"),
            Some(("mysql" | "mariadb", _)) => (Wire::MySql, "socket=/"),
            Some(("mssql" | "sqlserver", _)) => return Self::of_port(url),
            _ => bail!("not a server's URL: {url}"),
        };
        let at = url.find(key).with_context(|| format!("no Unix socket ({key}…) in {url}"))? + key.len() - 1;
        let (before, rest) = url.split_at(at);
        let (place, after) = rest.split_at(rest.find('&').unwrap_or(rest.len()));
        Ok(Self { wire, before: before.into(), place: place.into(), after: after.into() })
    }

    fn of_port(url: &str) -> Result<Self> {
        let at = url.find('@').context("nobody logs in at that URL")? + 1;
        let (before, rest) = url.split_at(at);
        let (place, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        anyhow::ensure!(place.contains(':'), "no port in the URL");
        Ok(Self { wire: Wire::Tds, before: before.into(), place: place.into(), after: after.into() })
    }

    pub(super) fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the same URL with our own place, in this folder or on a free port, and the listener there.
    pub(super) fn moved_to(&self, folder: &Path) -> Result<(Self, Door)> {
        if self.wire == Wire::Tds {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no free port")?;
            listener.set_nonblocking(true)?;
            let (place, after) = (listener.local_addr()?.to_string().into(), in_the_clear(&self.after));
            return Ok((Self { place, after, ..self.clone() }, Door::Port(TcpListener::from_std(listener)?)));
        }
        let own = self.in_folder(folder);
        let socket = own.socket();
        let listener = UnixListener::bind(&socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
        Ok((own, Door::Socket(listener)))
    }

    fn in_folder(&self, folder: &Path) -> Self {
        let place = match self.wire {
            Wire::Postgres => folder.to_path_buf(),
            Wire::MySql | Wire::Tds => folder.join(mariadb::SOCKET),
        };
        Self { place, ..self.clone() }
    }

    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self.wire {
            Wire::Tds => Box::new(TcpStream::connect(self.place.display().to_string()).await?),
            Wire::Postgres | Wire::MySql => Box::new(UnixStream::connect(self.socket()).await?),
        })
    }

    pub(super) fn url(&self) -> String {
        format!("{}{}{}", self.before, self.place.display(), self.after)
    }

    pub(super) fn socket(&self) -> PathBuf {
        match self.wire {
            Wire::Postgres => self.place.join(postgres::socket_name(self.port())),
            Wire::MySql | Wire::Tds => self.place.clone(),
        }
    }

    fn port(&self) -> u16 {
        let settings = self.before.split(['?', '&']).chain(self.after.split('&'));
        let mut ports = settings.filter_map(|setting| setting.strip_prefix("port=")?.parse().ok());
        ports.next().unwrap_or(postgres::PORT)
    }
}

/// Returns the part after the place in a URL of SQL Server, without encryption, because the proxy must be able to
/// read.
fn in_the_clear(after: &str) -> String {
    let (database, settings) = after.split_once('?').unwrap_or((after, ""));
    let others = settings.split('&').filter(|setting| !setting.is_empty() && !setting.starts_with("encrypt="));
    format!("{database}?{}", others.chain(["encrypt=false"]).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_found_and_replaced() {
        let address = Address::parse("postgres:///postgres?host=/a/b&port=5433&user=postgres").unwrap();
        assert_eq!(address.socket(), Path::new("/a/b/.s.PGSQL.5433"));
        let moved = address.in_folder(Path::new("/c"));
        assert_eq!(moved.url(), "postgres:///postgres?host=/c&port=5433&user=postgres");
        assert_eq!(moved.socket(), Path::new("/c/.s.PGSQL.5433"));

        let address = Address::parse("mysql://root@localhost/postroom?socket=/a/my.sock").unwrap();
        assert_eq!(address.socket(), Path::new("/a/my.sock"));
        assert_eq!(address.in_folder(Path::new("/c")).url(), "mysql://root@localhost/postroom?socket=/c/mysql.sock");
    }

    #[tokio::test]
    async fn the_port_of_sql_server_is_found_and_replaced() {
        let url = "mssql://sa:secret@127.0.0.1:1433/master?encrypt=false";
        let (moved, _door) = Address::parse(url).unwrap().moved_to(Path::new("/c")).unwrap();
        assert_eq!(moved.url().replace(&moved.place.display().to_string(), "127.0.0.1:1433"), url);
        assert_ne!(moved.url(), url);
        assert_eq!(
            in_the_clear("/a?encrypt=true&trustServerCertificate=true"),
            "/a?trustServerCertificate=true&encrypt=false"
        );
    }

    #[test]
    fn other_urls_are_refused() {
        let urls = ["postgres://localhost/postgres", "mysql://localhost/a", "sqlite:///a?host=/b", "host=/a"];
        for url in urls.into_iter().chain(["mssql://sa@localhost/a", "mssql://localhost:1433/a"]) {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
