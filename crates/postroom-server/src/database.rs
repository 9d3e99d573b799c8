//! The database: a file or the URL of a server. Its password is never shown.

use std::path::{Path, PathBuf};

use anyhow::Result;
use postroom::mssql::MssqlOptions;

use crate::problem::Problem;

pub(crate) const ALLOWED: &str =
    "postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, mssql://USER@HOST/DATABASE, sqlite:PATH or a path";

/// A database, as it is named on the command line.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
    MySql(String),
    /// A URL, or a connection string of the .NET world.
    Mssql(String),
}

impl Database {
    /// Reads a path or a URL. Errors do not repeat the text, because it may hold a password.
    pub(crate) fn parse(named: &Path) -> Result<Self> {
        let Some(text) = named.to_str() else { return Ok(Self::Sqlite(named.into())) };
        if let Some(path) = text.strip_prefix("sqlite:") {
            return Ok(Self::Sqlite(path.strip_prefix("//").unwrap_or(path).into()));
        }
        if MssqlOptions::recognises(text) {
            return Ok(Self::Mssql(text.into()));
        }
        match scheme(text) {
            // A file with that name would contain a password.
            None if text.contains(';') && text.contains('=') => {
                let what = "the database is neither a path, a URL nor a known connection string";
                Err(Problem::new(what, ALLOWED).into())
            }
            None => Ok(Self::Sqlite(named.into())),
            Some("postgres" | "postgresql") => Ok(Self::Postgres(text.into())),
            Some("mysql" | "mariadb") => Ok(Self::MySql(text.into())),
            Some(other) => Err(Problem::new(format!("unknown kind of database: {other}://"), ALLOWED).into()),
        }
    }

    /// The absolute path of the file, or the URL without its password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Sqlite(path) => absolute(path).display().to_string(),
            Self::Postgres(url) | Self::MySql(url) | Self::Mssql(url) => masked(url),
        }
    }

    /// Whether it can be shown as it is.
    pub(crate) fn is_public(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(url) | Self::MySql(url) | Self::Mssql(url) => masked(url) == *url,
        }
    }

    /// Its file, if it is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite(path) => Some(absolute(path)),
            Self::Postgres(_) | Self::MySql(_) | Self::Mssql(_) => None,
        }
    }

    /// The kind of database, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
            Self::MySql(_) => "MySQL or MariaDB",
            Self::Mssql(_) => "SQL Server",
        }
    }
}

/// The absolute path.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The URL with `***` for everything that may be a password. A password may hold any character, even unescaped, so
/// everything between the first colon and the last `@` counts as one.
fn masked(url: &str) -> String {
    let Some(scheme) = scheme(url) else { return masked_string(url) };
    let rest = &url[scheme.len() + "://".len()..];
    let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let user = user.map(|user| match user.split_once(':') {
        Some((name, _)) => format!("{name}:***@"),
        None => format!("{user}@"),
    });
    let (address, query) = rest.split_once('?').map_or((rest, None), |(address, query)| (address, Some(query)));
    let query = query.map(|query| format!("?{}", query.split('&').map(masked_pair).collect::<Vec<_>>().join("&")));
    format!("{scheme}://{}{address}{}", user.unwrap_or_default(), query.unwrap_or_default())
}

/// The scheme of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(scheme)
}

/// A connection string up to its password. A quoted password can hold anything, so the rest is left out too.
fn masked_string(text: &str) -> String {
    let is_password = |key: &str| {
        let plain: String = key.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect();
        ["password", "pwd"].iter().any(|known| plain.eq_ignore_ascii_case(known))
    };
    let pairs: Vec<_> = text.split(';').collect();
    match pairs.iter().position(|pair| pair.split_once('=').is_some_and(|(key, _)| is_password(key))) {
        Some(first) => [&pairs[..first], &["Password=***"]].concat().join(";"),
        None => text.to_owned(),
    }
}

fn masked_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_servers_are_told_apart() {
        let file = |path: &str| Database::Sqlite(path.into());
        for (text, expected) in [
            ("shop.db", file("shop.db")),
            ("/var/lib/shop.db", file("/var/lib/shop.db")),
            ("odd:name.db", file("odd:name.db")),
            ("sqlite:shop.db", file("shop.db")),
            ("sqlite:///var/shop.db", file("/var/shop.db")),
            ("postgres://a@b/c", Database::Postgres("postgres://a@b/c".into())),
            ("postgresql:///c", Database::Postgres("postgresql:///c".into())),
            ("mysql://a@b/c", Database::MySql("mysql://a@b/c".into())),
            ("mariadb://a@b/c", Database::MySql("mariadb://a@b/c".into())),
            ("mssql://a@b/c", Database::Mssql("mssql://a@b/c".into())),
            ("Server=b;Database=c", Database::Mssql("Server=b;Database=c".into())),
            ("data source=b", Database::Mssql("data source=b".into())),
            ("User Id=a;Server=b", Database::Mssql("User Id=a;Server=b".into())),
            ("sqlserver://a@b/c", Database::Mssql("sqlserver://a@b/c".into())),
            ("a=b.db", file("a=b.db")),
            ("server.db", file("server.db")),
        ] {
            assert!(Database::parse(Path::new(text)).is_ok_and(|database| database == expected), "{text}");
        }
    }

    #[test]
    fn another_scheme_is_refused_without_an_echo() {
        let error = Database::parse(Path::new("oracle://scott:tiger@db/x")).err().unwrap();
        let problem = error.downcast_ref::<Problem>().unwrap();
        assert_eq!(problem.to_string(), "unknown kind of database: oracle://");
        assert!(problem.advice().contains("postgres://") && !problem.advice().contains("tiger"));
        for text in ["Srever=db;Password=tiger", "Srever=db;Password=tiger://x"] {
            let error = Database::parse(Path::new(text)).err().unwrap();
            assert!(!format!("{error:?} {error}").contains("tiger"), "{error}");
        }
    }

    #[test]
    fn a_password_is_masked_however_it_is_written() {
        for (url, shown) in [
            ("postgres://app:tiger@db:5432/shop", "postgres://app:***@db:5432/shop"),
            ("postgres://app:ti@ger/x?y@db/shop", "postgres://app:***@db/shop"),
            ("postgres://app@db/shop", "postgres://app@db/shop"),
            ("postgres:///shop?host=/run&user=app&password=tiger", "postgres:///shop?host=/run&user=app&password=***"),
            ("mysql://app:@db/shop?sslpassword=tiger", "mysql://app:***@db/shop?sslpassword=***"),
            ("mysql://db/shop?socket=/run/a.sock", "mysql://db/shop?socket=/run/a.sock"),
            ("mssql://app:tiger@db/shop?encrypt=true", "mssql://app:***@db/shop?encrypt=true"),
            ("Server=db;User Id=app;Password='ti;Server=ger';Encrypt=True", "Server=db;User Id=app;Password=***"),
            ("Server=db;Database=shop", "Server=db;Database=shop"),
            ("PWD=ti;Server=ger://db", "Password=***"),
        ] {
            let database = Database::parse(Path::new(url)).unwrap();
            assert_eq!(database.shown(), shown);
            assert_eq!(database.is_public(), url == shown, "{url}");
        }
    }
}
