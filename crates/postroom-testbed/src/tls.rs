//! Our own certificate authority and a certificate for `localhost`, so that a test can connect to a database with
//! `sslmode=verify-full`, and to another service over TLS.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::folder::Folder;

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const CERTIFICATE: &str = "server.pem";
pub(crate) const KEY: &str = "server.key";

const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";

const HELP: &str = "no certificate: openssl 3 is needed";

pub(crate) fn set_up(folder: &Folder) -> Result<()> {
    for args in commands() {
        folder.run(Path::new("openssl"), args.split(' ')).context(HELP)?;
    }
    Ok(())
}

/// A certificate for `localhost` with its key, and the authority that issued it; all in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The authority. A client that trusts it also trusts the certificate.
    pub authority: Vec<u8>,
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl Certificate {
    /// Issues a new certificate. Its files stay in this folder.
    pub fn issue(folder: &Path) -> Result<Self> {
        for args in commands() {
            let ran = Command::new("openssl").args(args.split(' ')).current_dir(folder).output().context(HELP)?;
            ensure!(ran.status.success(), "{HELP}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        let read = |name| fs::read(folder.join(name)).with_context(|| format!("openssl left no {name}"));
        Ok(Self { authority: read(AUTHORITY)?, certificate: read(CERTIFICATE)?, key: read(KEY)? })
    }
}

fn commands() -> [String; 2] {
    let signed = format!("{NEW} -CA {AUTHORITY} -CAkey authority.key -subj /CN=localhost");
    let named = "-addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE";
    [
        format!("{NEW} -subj /CN=testbed -keyout authority.key -out {AUTHORITY}"),
        format!("{signed} {named} -keyout {KEY} -out {CERTIFICATE}"),
    ]
}
