//! Sets up and starts PostgreSQL.

use std::path::Path;

use anyhow::Result;

use crate::{engine::Mode, folder::Folder, program, tls};

/// Without TCP, the port is only a part of the socket's name.
pub(crate) const PORT: u16 = 5432;

pub(crate) fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

pub(crate) fn set_up(folder: &Folder, program: &Path) -> Result<()> {
    let initdb = program::beside(program, "initdb")?;
    // The data need not survive a power failure, so nothing waits for the disk.
    let data = folder.join("data").display().to_string();
    folder.run(&initdb, ["-D", &data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"])
}

/// Copies a running server, with the settings that make the copy follow it.
pub(crate) fn copy(folder: &Folder, program: &Path, primary: &Path, port: u16) -> Result<()> {
    let pg_basebackup = program::beside(program, "pg_basebackup")?;
    let (data, host) = (folder.join("data").display().to_string(), primary.display().to_string());
    let from = ["-h", &host, "-p", &port.to_string(), "-U", "postgres"].map(str::to_owned);
    let how = ["-D", &data, "-R", "--checkpoint=fast", "--no-sync"].map(str::to_owned);
    folder.run(&pg_basebackup, from.iter().chain(&how))
}

pub(crate) fn command(folder: &Folder, program: &Path, mode: Mode, tcp: Option<u16>, tls: bool) -> Vec<String> {
    let path = |name| folder.join(name).display().to_string();
    let mut words = vec![program.display().to_string(), "-D".into(), path("data")];
    let mut set = |name: &str, value: &str| words.extend(["-c".to_owned(), format!("{name}={value}")]);
    set("port", &tcp.unwrap_or(PORT).to_string());
    set("listen_addresses", if tcp.is_some() { "127.0.0.1" } else { "" });
    set("unix_socket_directories", &folder.path().display().to_string());
    // Shared memory of a killed server stays in its folder, and is removed with it.
    set("dynamic_shared_memory_type", "mmap");
    if tls {
        set("ssl", "on");
        set("ssl_cert_file", &path(tls::CERTIFICATE));
        set("ssl_key_file", &path(tls::KEY));
    }
    match mode {
        Mode::Fast => {
            set("max_connections", "400");
            set("fsync", "off");
            set("synchronous_commit", "off");
            set("full_page_writes", "off");
        }
        Mode::Durable => {
            set("max_connections", "200");
            set("shared_buffers", "256MB");
        }
    }
    words
}
