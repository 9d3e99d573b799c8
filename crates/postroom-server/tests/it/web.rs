//! HTTP requests to a running node.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// `printf %s secret | sha256sum`
pub(crate) const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
const TOKEN: &str = "secret";

/// The node to send requests to.
pub(crate) struct Asked {
    pub(crate) address: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    /// Null if the body is not JSON.
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Asked {
    /// From the line in which a node prints its address.
    pub(crate) fn read(line: &str) -> Self {
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}"));
        Self { address: address.trim().to_owned() }
    }

    pub(crate) fn get(&self, path: &str, token: Option<&str>) -> Said {
        self.ask("GET", path, token, "")
    }

    /// With the token whose digest is configured.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Said {
        self.ask("POST", path, Some(TOKEN), &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Said {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let (host, length) = (&self.address, body.len());
        let kind = "connection: close\r\ncontent-type: application/json";
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{token}{kind}\r\ncontent-length: {length}");
        write!(stream, "{head}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Said { status, body: serde_json::from_str(text).unwrap_or_default(), text: text.to_owned() }
    }
}
