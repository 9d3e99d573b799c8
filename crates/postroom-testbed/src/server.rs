//! A database server for one test run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

use crate::{
    engine::{Engine, Mode},
    folder::Folder,
    handshake,
    keeper::Keeper,
    mariadb,
    port::free_port,
    postgres, program, tls,
};

/// The options of a server.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    engine: Engine,
    mode: Mode,
    tcp: bool,
    tls: bool,
}

impl Options {
    /// Creates options for a server that is reached only through its Unix socket.
    pub fn new(engine: Engine, mode: Mode) -> Self {
        Self { engine, mode, tcp: false, tls: false }
    }

    /// Also opens a free port of 127.0.0.1.
    #[must_use]
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Gives the server a certificate for `localhost`, and a port, because TLS is not used on a Unix socket.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self.tcp()
    }

    /// Sets a server up, starts it, and waits until it answers. It installs a missing server where that is possible.
    pub fn start(self) -> Result<Server> {
        let program = program::of_server(self.engine)?;
        let starting = || format!("{} cannot be started", self.engine);
        let folder = Folder::create(self.engine).with_context(starting)?;
        let set_up = match self.engine {
            Engine::Postgres => postgres::set_up(&folder, &program),
            Engine::MariaDb => mariadb::set_up(&folder, &program),
        };
        set_up.with_context(starting)?;
        if self.tls {
            tls::set_up(&folder).with_context(starting)?;
        }
        let port = if self.tcp { Some(free_port()?) } else { None };
        let mut server = Server { keeper: None, options: self, program, port, folder };
        server.restart()?;
        Ok(server)
    }
}

/// A database server in its own folder. When it is dropped, it ends and its folder is removed.
#[derive(Debug)]
pub struct Server {
    // This is dropped before the folder: it ends the server, which writes there.
    keeper: Option<Keeper>,
    options: Options,
    program: PathBuf,
    port: Option<u16>,
    folder: Folder,
}

impl Server {
    /// Starts a server that is reached through its Unix socket. [`Options`] can do more.
    pub fn start(engine: Engine, mode: Mode) -> Result<Self> {
        Options::new(engine, mode).start()
    }

    /// Returns the database engine.
    pub fn engine(&self) -> Engine {
        self.options.engine
    }

    /// Returns the URL for clients on its Unix socket.
    pub fn url(&self) -> String {
        let path = self.folder.path().display();
        match self.options.engine {
            Engine::Postgres => {
                let port = self.port.unwrap_or(postgres::PORT);
                format!("postgres:///postgres?host={path}&port={port}&user=postgres")
            }
            Engine::MariaDb => {
                format!("mysql://root@localhost/{}?socket={path}/{}", mariadb::DATABASE, mariadb::SOCKET)
            }
        }
    }

    /// Returns the URL for clients on its port, if it has one. With TLS, they check its certificate.
    pub fn tcp_url(&self) -> Option<String> {
        let port = self.port?;
        Some(match self.options.engine {
            Engine::Postgres if self.options.tls => {
                let authority = self.folder.join(tls::AUTHORITY);
                let checked = format!("sslmode=verify-full&sslrootcert={}", authority.display());
                format!("postgres://postgres@localhost:{port}/postgres?{checked}")
            }
            Engine::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            Engine::MariaDb if self.options.tls => {
                let authority = self.folder.join(tls::AUTHORITY);
                let checked = format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={}", authority.display());
                format!("mysql://root@localhost:{port}/{}?{checked}", mariadb::DATABASE)
            }
            Engine::MariaDb => format!("mysql://root@127.0.0.1:{port}/{}", mariadb::DATABASE),
        })
    }

    /// Starts a standby that follows it, from a copy of its data. This works only with PostgreSQL.
    pub fn standby(&self) -> Result<Self> {
        ensure!(self.options.engine == Engine::Postgres, "only PostgreSQL can be copied while it runs");
        let folder = Folder::create(self.options.engine)?;
        let port = self.port.unwrap_or(postgres::PORT);
        postgres::copy(&folder, &self.program, self.folder.path(), port).context("no standby")?;
        let options = Options { tcp: false, tls: false, ..self.options };
        let mut standby = Self { keeper: None, options, program: self.program.clone(), port: None, folder };
        standby.restart()?;
        Ok(standby)
    }

    /// Returns its port, if the options asked for one.
    pub fn tcp_port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the folder of its Unix socket, and the number in the socket's name.
    pub(crate) fn address(&self) -> (&Path, u16) {
        (self.folder.path(), self.port.unwrap_or(postgres::PORT))
    }

    /// Returns the path of its Unix socket.
    pub fn socket(&self) -> PathBuf {
        match self.options.engine {
            Engine::Postgres => self.folder.join(&postgres::socket_name(self.port.unwrap_or(postgres::PORT))),
            Engine::MariaDb => self.folder.join(mariadb::SOCKET),
        }
    }

    /// Returns the path of its log, which is removed with the server.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns its process, or `None` while it is stopped or killed.
    pub fn pid(&self) -> Option<Pid> {
        self.keeper.as_ref().map(Keeper::server)
    }

    /// Kills it with all its processes, and waits until they are gone. Its data stays for a restart.
    pub fn kill(&mut self) -> Result<()> {
        self.keeper.take().map_or(Ok(()), Keeper::kill)
    }

    /// Shuts it down without waiting for its clients. Its data stays for a restart.
    pub fn stop(&mut self) -> Result<()> {
        let signal = match self.options.engine {
            Engine::Postgres => Signal::INT,
            Engine::MariaDb => Signal::TERM,
        };
        self.keeper.take().map_or(Ok(()), |keeper| keeper.end(signal))
    }

    /// Starts it again in the same folder, and waits until it has recovered and answers. A running one is shut down
    /// first.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let (mode, port) = (self.options.mode, self.port);
        // This is the quickest signal that leaves nothing behind on the machine.
        let (parting, command) = match self.options.engine {
            Engine::Postgres => ("QUIT", postgres::command(&self.folder, &self.program, mode, port, self.options.tls)),
            Engine::MariaDb => ("KILL", mariadb::command(&self.folder, &self.program, mode, port, self.options.tls)),
        };
        let keeper = Keeper::start(&self.folder, parting, &command)?;
        handshake::wait(self.options.engine, &self.socket(), &keeper, &self.log())?;
        self.keeper = Some(keeper);
        Ok(())
    }
}
