//! Certificates from private authorities.

use std::process::{Command, Stdio};

use crate::desk::Desk;

/// A new certificate and its key, valid for two days.
pub(crate) const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";

/// Runs openssl in that folder, and returns its output.
pub(crate) fn openssl(desk: &Desk, args: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(args.split(' ')).current_dir(desk.path("")).stdin(Stdio::null());
    let ran = command.output().expect("openssl 3 is needed");
    assert!(ran.status.success(), "{args}: {ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A certificate authority, trusted or not.
pub(crate) struct Authority(Desk);

impl Authority {
    pub(crate) fn new() -> Self {
        let desk = Desk::new();
        openssl(&desk, &format!("{NEW} -subj /CN=authority -keyout authority.key -out authority.pem"));
        Self(desk)
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        std::fs::read_to_string(self.0.path("authority.pem")).unwrap()
    }

    /// A certificate for `localhost` and its key: `NAME.pem` and `NAME.key` in that folder.
    pub(crate) fn issue(&self, desk: &Desk, name: &str) {
        let named = "-subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE";
        let (pem, key) = (desk.path(&format!("{name}.pem")), desk.path(&format!("{name}.key")));
        let files = format!("-keyout {} -out {}", key.display(), pem.display());
        openssl(&self.0, &format!("{NEW} -CA authority.pem -CAkey authority.key {named} {files}"));
    }

    /// The same, but expired.
    pub(crate) fn issue_too_late(&self, desk: &Desk, name: &str) {
        self.issue(desk, name);
        let (pem, key) = (desk.path(&format!("{name}.pem")), desk.path(&format!("{name}.key")));
        openssl(&self.0, &format!("req -new -key {} -subj /CN=localhost -out late.csr", key.display()));
        let signed = "-CA authority.pem -CAkey authority.key -CAcreateserial -days -1";
        openssl(&self.0, &format!("x509 -req -in late.csr {signed} -out {}", pem.display()));
    }
}
