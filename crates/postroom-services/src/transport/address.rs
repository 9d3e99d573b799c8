//! The address of a service, as people write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

use postroom_core::support::error::{Error, Result};

/// The path that a receiver listens on for messages, unless its address has another one.
pub(crate) const RECEIVE_PATH: &str = "/_rf/receive";
/// The default gRPC method, and the other name that receivers also answer to.
pub(crate) const GRPC_PATHS: [&str; 2] = ["/postroom.v1.Receiver/Receive", "/RFReceiver/Receive"];
/// The longest path of a Unix socket that works on every system.
const SOCKET_PATH_MAX: usize = 103;

/// The address of a service.
///
/// It has the form `https://host:port[/path]`, `http://…`, `grpc://host:port[/RFReceiver/Receive]` (`grpcs://` with
/// TLS), `unix:///path/to.sock`, `pipe://name`, or `in-process`.
///
/// ```
/// use postroom::services::Address;
///
/// let address: Address = "https://inventory.example.com".parse()?;
/// assert_eq!(address.to_string(), "https://inventory.example.com:443/_rf/receive");
/// assert!("inventory.example.com".parse::<Address>().is_err(), "the transport is missing");
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address(pub(crate) Location);

/// Where a service is, and how it is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    Http { host: Host, path: String },
    Grpc { host: Host, path: &'static str },
    Unix { socket: PathBuf },
    Pipe { name: String },
    InProcess,
}

/// A host and a port, and whether the connection is encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

impl Host {
    pub(crate) fn parse(text: &str, rest: &str, tls: bool) -> Result<(Self, String)> {
        let uri: Uri = format!("http://{rest}").parse().map_err(|_| malformed(text))?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(|| malformed(text))?;
        let name = host_name(authority.host()).ok_or_else(|| malformed(text))?.to_owned();
        let has_port = authority.as_str().len() > authority.host().len();
        if has_port && authority.port_u16().is_none() {
            return Err(malformed(text));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok((Self { name, port, tls }, path.to_owned()))
    }

    /// Returns whether the host is this machine, so that nobody else can listen in.
    pub(crate) fn is_loopback(&self) -> bool {
        self.name == "localhost" || self.name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Formats the host and port for a URI.
    pub(crate) fn authority(&self) -> String {
        if self.name.contains(':') {
            return format!("[{}]:{}", self.name, self.port);
        }
        format!("{}:{}", self.name, self.port)
    }
}

/// Returns a host without its brackets, which only IPv6 addresses have.
fn host_name(host: &str) -> Option<&str> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(number) => number.parse::<Ipv6Addr>().is_ok().then_some(number),
        None => (!host.is_empty() && !host.contains(['[', ']', ':'])).then_some(host),
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "in-process" {
            return Ok(Self(Location::InProcess));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| malformed(text))?;
        Ok(Self(match scheme {
            "http" | "https" => {
                let (host, path) = Host::parse(text, rest, scheme == "https")?;
                let path = if path == "/" { RECEIVE_PATH.to_owned() } else { path };
                Location::Http { host, path }
            }
            "grpc" | "grpcs" => {
                let (host, path) = Host::parse(text, rest, scheme == "grpcs")?;
                Location::Grpc { host, path: grpc_path(&path)? }
            }
            "unix" if rest.starts_with('/') => Location::Unix { socket: socket(rest)? },
            "pipe" if is_pipe_name(rest) => Location::Pipe { name: rest.to_owned() },
            _ => return Err(malformed(text)),
        }))
    }
}

fn grpc_path(path: &str) -> Result<&'static str> {
    let [usual, other] = GRPC_PATHS;
    let found = GRPC_PATHS.into_iter().find(|known| *known == path);
    let found = found.or_else(|| (path == "/").then_some(usual));
    found.ok_or_else(|| Error::invalid(format!("{path:?} is not the path of a gRPC address; use {usual} or {other}")))
}

fn socket(path: &str) -> Result<PathBuf> {
    if path.len() > SOCKET_PATH_MAX {
        let length = path.len();
        return Err(Error::invalid(format!(
            "the path of the socket has {length} bytes; at most {SOCKET_PATH_MAX} are allowed"
        )));
    }
    Ok(path.into())
}

/// Checks the name of a pipe, which becomes a file name on some systems.
fn is_pipe_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.bytes().all(allowed)
}

fn malformed(text: &str) -> Error {
    // The text may contain a password, although an address has none.
    let shown = if text.contains('@') { "an address with a password" } else { text };
    Error::invalid(format!(
        "{shown:?} is not an address; use https://host:port, http://host:port, grpc://host:port, \
         grpcs://host:port, unix:///path, pipe://name or in-process"
    ))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secure = |host: &Host| if host.tls { "s" } else { "" };
        match &self.0 {
            Location::Http { host, path } => write!(f, "http{}://{}{path}", secure(host), host.authority()),
            Location::Grpc { host, path } => {
                let path = if *path == GRPC_PATHS[0] { "" } else { path };
                write!(f, "grpc{}://{}{path}", secure(host), host.authority())
            }
            Location::Unix { socket } => write!(f, "unix://{}", socket.display()),
            Location::Pipe { name } => write!(f, "pipe://{name}"),
            Location::InProcess => f.write_str("in-process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_has_its_form() {
        for (text, full) in [
            ("https://inventory:5000", "https://inventory:5000/_rf/receive"),
            ("http://127.0.0.1:80/hooks?a=1", "http://127.0.0.1:80/hooks?a=1"),
            ("http://[::1]:7000/x", "http://[::1]:7000/x"),
            ("https://example.com", "https://example.com:443/_rf/receive"),
            ("grpc://inventory:5001", "grpc://inventory:5001"),
            ("grpcs://inventory:5001", "grpcs://inventory:5001"),
            ("grpc://inventory:5001/RFReceiver/Receive", "grpc://inventory:5001/RFReceiver/Receive"),
            ("grpc://inventory:5001/postroom.v1.Receiver/Receive", "grpc://inventory:5001"),
            ("unix:///tmp/rf.sock", "unix:///tmp/rf.sock"),
            ("pipe://rf-email", "pipe://rf-email"),
            ("in-process", "in-process"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), full);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("unix:///{}", "x".repeat(200));
        for text in [
            "",
            "inventory",
            "ftp://a",
            "http://",
            "http:///a",
            "http://u:p@a",
            "unix://tmp/a",
            "pipe://",
            "pipe://a/b",
            "pipe://..",
            "http://a:99999",
            "grpc://a:1/RFReceiver",
            "grpc://a:1/RFReceiver/Receive?a=1",
            "grpc://a:1/rfreceiver/receive",
            "http://a[::1]:7000",
            "http://[::1]a",
            "http://[a]:7000",
            "http://[]:7000",
            &long,
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        let hidden = "http://u:hunter2@a".parse::<Address>().unwrap_err().to_string();
        assert!(!hidden.contains("hunter2"), "{hidden}");
    }

    #[test]
    fn loopback_is_recognised_by_name_and_number() {
        let is_loopback = |text: &str| match text.parse::<Address>().unwrap().0 {
            Location::Http { host, .. } => host.is_loopback(),
            _ => false,
        };
        assert!(
            is_loopback("http://localhost:1") && is_loopback("http://127.9.9.9:1") && is_loopback("http://[::1]:1")
        );
        assert!(!is_loopback("http://10.0.0.1:1") && !is_loopback("http://localhost.example.com:1"));
    }
}
