//! A PgBouncer in front of a server, in transaction mode: each transaction may get another connection.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{
    engine::Engine, folder::Folder, handshake, keeper::Keeper, postgres::socket_name, program, server::Server,
};

/// The port is only a part of the socket's name.
const PORT: u16 = 6432;
const SETTINGS: &str = "pgbouncer.ini";

/// A PgBouncer in its own folder. When it is dropped, it ends and its folder is removed.
#[derive(Debug)]
pub struct Pooler {
    // This is dropped before the folder: it ends the pooler, which writes there.
    _keeper: Keeper,
    folder: Folder,
}

impl Pooler {
    /// The environment variable that names a pooler to test against.
    pub const URL_VARIABLE: &'static str = "POSTROOM_TEST_POOLER_URL";

    /// Starts a pooler in front of a PostgreSQL, with few connections for many clients. A missing PgBouncer is
    /// installed where that is possible.
    pub fn start(server: &Server) -> Result<Self> {
        ensure!(server.engine() == Engine::Postgres, "PgBouncer stands before PostgreSQL only");
        let program = program::of_pooler()?;
        let folder = Folder::create(Engine::Postgres).context("PgBouncer cannot be started")?;
        let settings = folder.join(SETTINGS);
        fs::write(&settings, settings_of(server, &folder)).context("cannot write PgBouncer's settings")?;
        let command = [program, settings].map(|word| word.display().to_string());
        let keeper = Keeper::start(&folder, "KILL", &command)?;
        let pooler = Self { _keeper: keeper, folder };
        handshake::wait(Engine::Postgres, &pooler.socket(), &pooler._keeper, &pooler.folder.join("log"))
            .context("PgBouncer cannot be started")?;
        Ok(pooler)
    }

    /// Returns the URL for clients that use the server through the pooler.
    pub fn url(&self) -> String {
        format!("postgres:///postgres?host={}&port={PORT}&user=postgres", self.folder.path().display())
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(&socket_name(PORT))
    }
}

fn settings_of(server: &Server, folder: &Folder) -> String {
    let (host, port) = server.address();
    format!(
        "[databases]\n\
         * = host={} port={port} user=postgres\n\
         [pgbouncer]\n\
         pool_mode = transaction\n\
         default_pool_size = 4\n\
         max_client_conn = 2000\n\
         auth_type = any\n\
         listen_port = {PORT}\n\
         unix_socket_dir = {}\n",
        host.display(),
        folder.path().display(),
    )
}
