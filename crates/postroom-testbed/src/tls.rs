//! An authority of our own and a certificate for `localhost`, so that a test can connect with `sslmode=verify-full`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::folder::Folder;

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const CERTIFICATE: &str = "server.pem";
pub(crate) const KEY: &str = "server.key";

const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";

pub(crate) fn set_up(folder: &Folder) -> Result<()> {
    openssl(folder, &format!("{NEW} -subj /CN=testbed -keyout authority.key -out {AUTHORITY}"))?;
    let signed = format!("{NEW} -CA {AUTHORITY} -CAkey authority.key -subj /CN=localhost");
    let named = "-addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE";
    openssl(folder, &format!("{signed} {named} -keyout {KEY} -out {CERTIFICATE}"))
}

fn openssl(folder: &Folder, args: &str) -> Result<()> {
    folder.run(Path::new("openssl"), args.split(' ')).context("no certificate: openssl 3 is needed")
}
