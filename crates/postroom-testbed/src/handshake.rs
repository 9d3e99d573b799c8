//! Checks whether a server answers. It exchanges only the first bytes, which needs no client.

use std::{
    fmt::Display,
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Result, bail};

use crate::{broker::BrokerKind, engine::Engine, keeper::Keeper};

/// The number of checks: a server that has not come up after two minutes has failed.
const LOOKS: u32 = 6_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Protocol 3.0 with the user `postgres`, which is also the database.
const POSTGRES_HELLO: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
const POSTGRES_AUTHENTICATION: u8 = b'R';
/// The length and number of a packet come first.
const MARIADB_HEADER: usize = 4;
const MARIADB_PROTOCOL: u8 = 10;
/// AMQP 0-9-1.
const AMQP_HELLO: &[u8] = b"AMQP\0\0\x09\x01";
const AMQP_METHOD: u8 = 1;
const NATS_HELLO: [u8; 5] = *b"INFO ";
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the server behind this socket accepts clients. An error contains the end of its log.
pub(crate) fn wait(engine: Engine, socket: &Path, keeper: &Keeper, log: &Path) -> Result<()> {
    wait_until(|| answers(engine, socket), &engine, keeper, log)
}

/// Waits for a broker behind this port in the same way.
pub(crate) fn wait_for_broker(kind: BrokerKind, port: u16, keeper: &Keeper, log: &Path) -> Result<()> {
    let answers = || match kind {
        BrokerKind::RabbitMq => rabbitmq_answers(port),
        BrokerKind::Nats => nats_answers(port),
    };
    wait_until(|| answers().unwrap_or(false), &kind, keeper, log)
}

fn wait_until(answers: impl Fn() -> bool, server: &dyn Display, keeper: &Keeper, log: &Path) -> Result<()> {
    for _ in 0..LOOKS {
        if answers() {
            return Ok(());
        }
        if keeper.ends_within(BETWEEN_LOOKS) {
            bail!("{server} ended while it started:\n{}", last_words(log));
        }
    }
    bail!("{server} does not answer:\n{}", last_words(log))
}

fn last_words(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Returns whether the server behind this socket already accepts clients.
fn answers(engine: Engine, socket: &Path) -> bool {
    match engine {
        Engine::Postgres => postgres_answers(socket),
        Engine::MariaDb => mariadb_answers(socket),
    }
    .unwrap_or(false)
}

/// PostgreSQL answers with an error before it is ready.
fn postgres_answers(socket: &Path) -> io::Result<bool> {
    let mut stream = connect(socket)?;
    stream.write_all(POSTGRES_HELLO)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(first[0] == POSTGRES_AUTHENTICATION)
}

/// MariaDB speaks first, once it is ready.
fn mariadb_answers(socket: &Path) -> io::Result<bool> {
    let mut first = [0; MARIADB_HEADER + 1];
    connect(socket)?.read_exact(&mut first)?;
    Ok(first[MARIADB_HEADER] == MARIADB_PROTOCOL)
}

/// RabbitMQ listens once it is ready, and names its methods.
fn rabbitmq_answers(port: u16) -> io::Result<bool> {
    let mut stream = connect_to(port)?;
    stream.write_all(AMQP_HELLO)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(first[0] == AMQP_METHOD)
}

/// NATS speaks first, once it is ready.
fn nats_answers(port: u16) -> io::Result<bool> {
    let mut first = [0; NATS_HELLO.len()];
    connect_to(port)?.read_exact(&mut first)?;
    Ok(first == NATS_HELLO)
}

fn connect_to(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}
