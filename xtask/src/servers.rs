//! `cargo xtask servers`: runs database servers and message brokers for as long as somebody works with them. `cargo
//! xtask test` starts its own.

use std::{env, fmt::Display, fs, io, path::PathBuf, thread};

use anyhow::{Context, Result, ensure};
use postroom_testbed::{Broker, BrokerKind, Browser, Engine, Mode, Pooler, Server};

/// Starts all servers, prints how to reach them, and keeps them until the input ends.
pub(crate) fn run(durable: bool) -> Result<()> {
    let mode = if durable { Mode::Durable } else { Mode::Fast };
    let servers = Servers::start(&Engine::ALL, mode, &BrokerKind::ALL);
    for (name, url) in servers.variables() {
        println!("export {name}='{url}'");
    }
    eprint!("{}", servers.missing());
    ensure!(!servers.running.is_empty() || !servers.brokers.is_empty(), "no server was started");
    eprintln!("servers run until Ctrl-C");
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

/// The servers that could be started, and the reasons why the others could not.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    // This is dropped before the server behind it.
    pooler: Option<Pooler>,
    running: Vec<Server>,
    brokers: Vec<Broker>,
    browser: Option<PathBuf>,
    refusals: Vec<String>,
}

impl Servers {
    /// Starts one of each kind that the environment does not already name.
    pub(crate) fn start_unnamed() -> Self {
        let is_unnamed = |variable: &str| env::var_os(variable).is_none();
        let engines: Vec<_> = Engine::ALL.into_iter().filter(|engine| is_unnamed(engine.url_variable())).collect();
        let brokers: Vec<_> = BrokerKind::ALL.into_iter().filter(|kind| is_unnamed(kind.url_variable())).collect();
        Self::start(&engines, Mode::Fast, &brokers)
    }

    /// Starts all of them at once, because each waits for the disk most of the time.
    fn start(engines: &[Engine], mode: Mode, brokers: &[BrokerKind]) -> Self {
        let mut servers = Self::default();
        thread::scope(|scope| {
            let brokers = brokers.iter().map(|&kind| (kind, scope.spawn(move || Broker::start(kind))));
            let brokers = brokers.collect::<Vec<_>>();
            let engines = engines.iter().map(|&engine| (engine, scope.spawn(move || Server::start(engine, mode))));
            for (engine, start) in engines.collect::<Vec<_>>() {
                match started(&engine, start.join()) {
                    Ok(server) => servers.running.push(server),
                    Err(refusal) => servers.refusals.push(refusal),
                }
            }
            servers.start_pooler();
            for (kind, start) in brokers {
                match started(&kind, start.join()) {
                    Ok(broker) => servers.brokers.push(broker),
                    Err(refusal) => servers.refusals.push(refusal),
                }
            }
        });
        servers.find_browser();
        servers
    }

    /// Finds a browser, unless the environment names one.
    fn find_browser(&mut self) {
        if env::var_os(Browser::VARIABLE).is_some() {
            return;
        }
        match Browser::program() {
            Ok(program) => self.browser = Some(program),
            Err(error) => self.refusals.push(format!("{error:#}")),
        }
    }

    /// Starts a pooler in front of PostgreSQL, unless the environment names one.
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

    /// Returns the variables that tell the tests where the servers are.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let pooler = self.pooler.iter().map(|pooler| (Pooler::URL_VARIABLE, pooler.url()));
        let brokers = self.brokers.iter().map(|broker| (broker.kind().url_variable(), broker.url()));
        let browser = self.browser.iter().map(|program| (Browser::VARIABLE, program.display().to_string()));
        let servers = self.running.iter().map(|server| (server.engine().url_variable(), server.url()));
        servers.chain(pooler).chain(brokers).chain(browser)
    }

    /// Returns one line for each missing server.
    pub(crate) fn missing(&self) -> String {
        self.refusals.iter().map(|why| format!("{why}\n")).collect()
    }

    /// Copies the logs to a place where they outlive the servers, and returns where.
    pub(crate) fn keep_logs(&self) -> Result<String> {
        if self.running.is_empty() && self.brokers.is_empty() {
            return Ok(String::new());
        }
        let folder = tempfile::Builder::new().prefix("postroom-logs-").tempdir()?.keep();
        let servers = self.running.iter().map(|server| (server.engine().to_string(), server.log()));
        let brokers = self.brokers.iter().map(|broker| (broker.kind().to_string(), broker.log()));
        for (name, log) in servers.chain(brokers) {
            let name = format!("{name}.log");
            fs::copy(log, folder.join(&name)).with_context(|| format!("cannot keep {name}"))?;
        }
        Ok(format!("logs of the servers: {}\n", folder.display()))
    }
}

/// Returns what a thread started, or the reason why it did not.
fn started<T>(what: &dyn Display, start: thread::Result<Result<T>>) -> Result<T, String> {
    match start {
        Ok(started) => started.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("{what} cannot be started: it panicked")),
    }
}
