//! `cargo xtask servers`: database servers for as long as somebody works with them. `cargo xtask test` brings its own.

use std::{env, fs, io, thread};

use anyhow::{Context, Result, ensure};
use postroom_testbed::{Engine, Mode, Pooler, Server};

/// Starts both servers, says how they are reached, and keeps them until the input ends.
pub(crate) fn run(durable: bool) -> Result<()> {
    let servers = Servers::start(&Engine::ALL, if durable { Mode::Durable } else { Mode::Fast });
    for (name, url) in servers.variables() {
        println!("export {name}='{url}'");
    }
    eprint!("{}", servers.missing());
    ensure!(!servers.running.is_empty(), "no server was started");
    eprintln!("servers run until Ctrl-C");
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

/// The servers that could be started, and why the others could not.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    // Dropped before the server it stands before.
    pooler: Option<Pooler>,
    running: Vec<Server>,
    refusals: Vec<String>,
}

impl Servers {
    /// One of each kind that the environment does not name already.
    pub(crate) fn start_unnamed() -> Self {
        let is_unnamed = |engine: &Engine| env::var_os(engine.url_variable()).is_none();
        let engines: Vec<_> = Engine::ALL.into_iter().filter(is_unnamed).collect();
        Self::start(&engines, Mode::Fast)
    }

    /// All at once: each of them waits for the disk most of the time.
    fn start(engines: &[Engine], mode: Mode) -> Self {
        let mut servers = Self::default();
        thread::scope(|scope| {
            let starting = engines.iter().map(|&engine| (engine, scope.spawn(move || Server::start(engine, mode))));
            for (engine, start) in starting.collect::<Vec<_>>() {
                match start.join() {
                    Ok(Ok(server)) => servers.running.push(server),
                    Ok(Err(error)) => servers.refusals.push(format!("{error:#}")),
                    Err(_) => servers.refusals.push(format!("{engine} cannot be started: it panicked")),
                }
            }
        });
        servers.start_pooler();
        servers
    }

    /// A pooler before PostgreSQL, unless the environment names one.
    fn start_pooler(&mut self) {
        if env::var_os(Pooler::URL_VARIABLE).is_some() {
            return;
        }
        let (postgres, name) = (Engine::Postgres, Pooler::URL_VARIABLE);
        if let Some(server) = self.running.iter().find(|server| server.engine() == postgres) {
            match Pooler::start(server) {
                Ok(pooler) => self.pooler = Some(pooler),
                Err(error) => self.refusals.push(format!("{error:#}: install it, or name a pooler in {name}")),
            }
        } else if env::var_os(postgres.url_variable()).is_some() {
            self.refusals.push(format!("there is no pooler before the PostgreSQL that is named: name one in {name}"));
        }
    }

    /// The variables that tell the tests of them.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let pooler = self.pooler.iter().map(|pooler| (Pooler::URL_VARIABLE, pooler.url()));
        self.running.iter().map(|server| (server.engine().url_variable(), server.url())).chain(pooler)
    }

    /// One line for each server that is missing.
    pub(crate) fn missing(&self) -> String {
        self.refusals.iter().map(|why| format!("{why}\n")).collect()
    }

    /// Copies the logs to where they outlive the servers, and says where.
    pub(crate) fn keep_logs(&self) -> Result<String> {
        if self.running.is_empty() {
            return Ok(String::new());
        }
        let folder = tempfile::Builder::new().prefix("postroom-logs-").tempdir()?.keep();
        for server in &self.running {
            let name = format!("{}.log", server.engine());
            fs::copy(server.log(), folder.join(&name)).with_context(|| format!("cannot keep {name}"))?;
        }
        Ok(format!("logs of the servers: {}\n", folder.display()))
    }
}
