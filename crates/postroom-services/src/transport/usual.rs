//! The default transport, for services whose address does not name one.

use std::fmt;
use std::str::FromStr;

use postroom_core::support::error::{Error, Result};

/// A way to reach services: the part before `://` in an [`Address`](crate::Address).
///
/// As [`Services::default_transport`](crate::Services::default_transport) it completes addresses. An address that
/// names no transport uses this one, and a service without an address gets an address from its name.
///
/// ```
/// use postroom::services::TransportType;
///
/// assert_eq!(TransportType::Https.complete("inventory:5000", "inventory"), "https://inventory:5000");
/// assert_eq!(TransportType::Pipe.complete("", "email"), "pipe://rf-email");
/// assert_eq!(TransportType::Https.complete("pipe://rf-email", "email"), "pipe://rf-email");
/// assert_eq!("grpcs".parse::<TransportType>()?, TransportType::Grpcs);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransportType {
    /// Unencrypted HTTP: `http://host:port`.
    Http,
    /// HTTP over TLS: `https://host:port`.
    Https,
    /// Unencrypted gRPC: `grpc://host:port`.
    Grpc,
    /// gRPC over TLS: `grpcs://host:port`.
    Grpcs,
    /// A Unix socket: `unix:///path`.
    Unix,
    /// A named pipe: `pipe://name`.
    Pipe,
    /// A receiver in this process: `in-process`.
    InProcess,
}

impl TransportType {
    const ALL: [Self; 7] = [Self::Http, Self::Https, Self::Grpc, Self::Grpcs, Self::Unix, Self::Pipe, Self::InProcess];

    /// Returns the complete address of a service. An address that names its transport is already complete. Without an
    /// address the result is `https://NAME` and the like, `unix:///tmp/rf-NAME.sock`, `pipe://rf-NAME` or
    /// `in-process`.
    pub fn complete(self, address: &str, service: &str) -> String {
        match (address, self) {
            ("", Self::InProcess) => self.to_string(),
            // Any other address does not refer to this process.
            (_, Self::InProcess) => address.to_owned(),
            _ if address == "in-process" || address.contains("://") => address.to_owned(),
            ("", Self::Unix) => format!("unix:///tmp/rf-{service}.sock"),
            ("", Self::Pipe) => format!("pipe://rf-{service}"),
            ("", _) => format!("{self}://{service}"),
            _ => format!("{self}://{address}"),
        }
    }
}

impl fmt::Display for TransportType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
            Self::Unix => "unix",
            Self::Pipe => "pipe",
            Self::InProcess => "in-process",
        })
    }
}

impl FromStr for TransportType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|transport| transport.to_string() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(|transport| transport.to_string()).join(", ");
            Error::invalid(format!("{text:?} is not a transport; use one of {all}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::address::Address;

    #[test]
    fn every_transport_makes_an_address_of_a_name() {
        for (transport, expected) in [
            (TransportType::Http, "http://email:80/_rf/receive"),
            (TransportType::Https, "https://email:443/_rf/receive"),
            (TransportType::Grpc, "grpc://email:80"),
            (TransportType::Grpcs, "grpcs://email:443"),
            (TransportType::Unix, "unix:///tmp/rf-email.sock"),
            (TransportType::Pipe, "pipe://rf-email"),
            (TransportType::InProcess, "in-process"),
        ] {
            let address: Address = transport.complete("", "email").parse().unwrap();
            assert_eq!(address.to_string(), expected);
            assert_eq!(transport.to_string().parse::<TransportType>().unwrap(), transport);
        }
    }

    #[test]
    fn an_address_is_completed_only_where_it_does_not_say() {
        for (transport, address, expected) in [
            (TransportType::Https, "email:7000", "https://email:7000"),
            (TransportType::Grpc, "email:7000/RFReceiver/Receive", "grpc://email:7000/RFReceiver/Receive"),
            (TransportType::Unix, "/run/email.sock", "unix:///run/email.sock"),
            (TransportType::Pipe, "rf-mail", "pipe://rf-mail"),
            (TransportType::Pipe, "https://email", "https://email"),
            (TransportType::Pipe, "in-process", "in-process"),
            (TransportType::InProcess, "pipe://rf-mail", "pipe://rf-mail"),
            (TransportType::InProcess, "email:7000", "email:7000"),
        ] {
            assert_eq!(transport.complete(address, "email"), expected);
        }
        let unknown = "tcp".parse::<TransportType>().unwrap_err().to_string();
        assert_eq!(unknown, "\"tcp\" is not a transport; use one of http, https, grpc, grpcs, unix, pipe, in-process");
    }
}
