//! Sets up and starts MariaDB.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{engine::Mode, folder::Folder, program, tls};

pub(crate) const SOCKET: &str = "mysql.sock";
pub(crate) const DATABASE: &str = "postroom";

/// These statements run at each start, before any client is accepted.
const FIRST_STATEMENTS: &str = "CREATE DATABASE IF NOT EXISTS postroom;\n\
                                CREATE USER IF NOT EXISTS root@127.0.0.1;\n\
                                GRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;\n";
const FIRST_FILE: &str = "first.sql";

pub(crate) fn set_up(folder: &Folder, program: &Path) -> Result<()> {
    let install = program::beside(program, "mariadb-install-db")?;
    let data = format!("--datadir={}", folder.join("data").display());
    // Each server gets its own temporary folder, because a starting server deletes files there that another one may
    // be using.
    let temporary = format!("--tmpdir={}", folder.path().display());
    let accounts = ["--auth-root-authentication-method=normal", "--skip-test-db"];
    folder.run(&install, ["--no-defaults", &data, &temporary].into_iter().chain(accounts))?;
    fs::write(folder.join(FIRST_FILE), FIRST_STATEMENTS).context("cannot write the first statements")
}

pub(crate) fn command(folder: &Folder, program: &Path, mode: Mode, tcp: Option<u16>, tls: bool) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "--no-defaults".into()];
    let paths =
        [("datadir", "data"), ("socket", SOCKET), ("pid-file", "pid"), ("init-file", FIRST_FILE), ("tmpdir", "")];
    words.extend(paths.map(|(option, name)| format!("--{option}={}", folder.join(name).display())));
    match tcp {
        Some(port) => words.extend(["--bind-address=127.0.0.1".into(), format!("--port={port}")]),
        None => words.push("--skip-networking".into()),
    }
    if tls {
        let files = [("ssl-cert", tls::CERTIFICATE), ("ssl-key", tls::KEY)];
        words.extend(files.map(|(option, name)| format!("--{option}={}", folder.join(name).display())));
    }
    let settings: &[&str] = match mode {
        // Each case creates its own tables, and the server would wait for the disk at each of them.
        Mode::Fast => &[
            "--max-connections=400",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
            "--skip-sync-frm",
            "--skip-log-bin",
        ],
        // As much memory as anybody would give it. Its default is 128 MiB.
        Mode::Durable => &[
            "--max-connections=200",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=1G",
            "--innodb-log-file-size=512M",
        ],
    };
    words.extend(settings.iter().map(|&setting| setting.to_owned()));
    words
}
