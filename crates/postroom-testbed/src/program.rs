//! Finds the programs of the servers.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Result, bail};

use crate::{broker::BrokerKind, engine::Engine, install};

const OUTSIDE_OF_PATH: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin"];
/// Debian has one folder for each version here.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";
/// Debian has RabbitMQ's own scripts here.
const RABBITMQ_SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// Only one search runs at a time: the next one finds what the first has installed, and apt refuses a second
/// installation.
static SEARCH: Mutex<()> = Mutex::new(());

/// Returns the server's program. If it is missing, it is installed where that is permitted.
pub(crate) fn of_server(engine: Engine) -> Result<PathBuf> {
    let _alone = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = look_for(engine) {
        return Ok(program);
    }
    let attempt = install::packages_of(engine);
    if let Some(program) = look_for(engine) {
        return Ok(program);
    }
    let why = attempt.err().map_or_else(String::new, |error| format!(" ({error:#})"));
    bail!("{engine} is not installed{why}: install it, or name a server to test against in {}", engine.url_variable())
}

/// Returns PgBouncer's program. If it is missing, it is installed where that is permitted.
pub(crate) fn of_pooler() -> Result<PathBuf> {
    packaged("PgBouncer", &["pgbouncer"], || find_in(usual_folders(), "pgbouncer"))
}

/// Returns a broker's program. If it is missing, it is installed where that is permitted.
pub(crate) fn of_broker(kind: BrokerKind) -> Result<PathBuf> {
    match kind {
        // The script that Debian puts on the path runs only for root and the package's own account.
        BrokerKind::RabbitMq => packaged("RabbitMQ", &["rabbitmq-server"], || {
            find_in([RABBITMQ_SCRIPTS.into()].into_iter().chain(usual_folders()), "rabbitmq-server")
        }),
        BrokerKind::Nats => packaged("NATS", &["nats-server"], || find_in(usual_folders(), "nats-server")),
    }
}

/// Returns Chromium's program. If it is missing, it is installed where that is permitted.
pub(crate) fn of_browser() -> Result<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    packaged("Chromium", &["chromium"], || names.iter().find_map(|name| find_in(usual_folders(), name)))
}

fn packaged(what: &str, packages: &[&str], look_for: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    let _alone = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = look_for() {
        return Ok(program);
    }
    let attempt = install::without_service(packages);
    match (look_for(), attempt) {
        (Some(program), _) => Ok(program),
        (None, Ok(())) => bail!("{what} is not installed"),
        (None, Err(error)) => bail!("{what} is not installed ({error:#})"),
    }
}

fn look_for(engine: Engine) -> Option<PathBuf> {
    match engine {
        Engine::Postgres => find_in(postgres_versions().into_iter().chain(usual_folders()), "postgres"),
        Engine::MariaDb => find_in(usual_folders(), "mariadbd"),
    }
}

/// Returns a program of the same installation, from the server's folder or one of the usual folders.
pub(crate) fn beside(server: &Path, name: &str) -> Result<PathBuf> {
    let own = server.parent().map(Path::to_path_buf);
    match find_in(own.into_iter().chain(usual_folders()), name) {
        Some(program) => Ok(program),
        None => bail!("{name} is not installed, though {} is", server.display()),
    }
}

/// Returns the folders of all versions, newest first.
fn postgres_versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.iter().map(|version| Path::new(POSTGRES_VERSIONS).join(version.to_string()).join("bin")).collect()
}

fn usual_folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    folders.into_iter().chain(OUTSIDE_OF_PATH.map(PathBuf::from))
}

fn find_in(mut folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}
