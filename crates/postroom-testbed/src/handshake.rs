//! Whether a server answers: the first bytes of a conversation, for which no client is needed.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use crate::engine::Engine;

/// Protocol 3.0, user `postgres`, which is also the database.
const POSTGRES_HELLO: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
const POSTGRES_AUTHENTICATION: u8 = b'R';
/// A packet's length and number come first.
const MARIADB_HEADER: usize = 4;
const MARIADB_PROTOCOL: u8 = 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the server behind this socket lets clients in by now.
pub(crate) fn answers(engine: Engine, socket: &Path) -> bool {
    match engine {
        Engine::Postgres => postgres_answers(socket),
        Engine::MariaDb => mariadb_answers(socket),
    }
    .unwrap_or(false)
}

/// It answers before it is ready, with an error.
fn postgres_answers(socket: &Path) -> io::Result<bool> {
    let mut stream = connect(socket)?;
    stream.write_all(POSTGRES_HELLO)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(first[0] == POSTGRES_AUTHENTICATION)
}

/// It speaks first, when it is ready.
fn mariadb_answers(socket: &Path) -> io::Result<bool> {
    let mut first = [0; MARIADB_HEADER + 1];
    connect(socket)?.read_exact(&mut first)?;
    Ok(first[MARIADB_HEADER] == MARIADB_PROTOCOL)
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}
