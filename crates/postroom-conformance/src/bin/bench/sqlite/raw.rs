//! The baseline: the best plain SQL for the job, on a minimal table, with the same durability.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

pub(crate) const SCHEMA: &str = "CREATE TABLE raw (
    seq         INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE,
    topic       TEXT NOT NULL,
    payload     TEXT NOT NULL,
    state       INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    lease_until INTEGER
);
CREATE INDEX raw_ready ON raw (due, seq) WHERE state = 0;";
pub(crate) const INSERT: &str = "INSERT INTO raw (id, topic, payload, state, due) VALUES (?1, ?2, ?3, 0, ?4)";
pub(crate) const CLAIM: &str = "UPDATE raw SET state = 1, lease_until = ?1
    WHERE seq IN (SELECT seq FROM raw WHERE state = 0 AND due <= ?2 ORDER BY due, seq LIMIT ?3)
    RETURNING seq, topic, payload";
pub(crate) const ACK: &str = "UPDATE raw SET state = 2, lease_until = NULL WHERE seq = ?1 AND state = 1";
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
PRAGMA cache_size = -8000; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;";

pub(crate) fn print_statements() {
    println!("The baseline is rusqlite with these statements, all prepared once:\n");
    for text in [PRAGMAS, SCHEMA, "BEGIN IMMEDIATE; … COMMIT", INSERT, CLAIM, ACK] {
        println!("{text}\n");
    }
}

pub(crate) fn open(dir: &Path, name: &str) -> rusqlite::Result<Connection> {
    let conn = Connection::open(dir.join(name))?;
    conn.execute_batch(PRAGMAS)?;
    conn.execute_batch(SCHEMA)?;
    Ok(conn)
}

pub(crate) fn insert(conn: &Connection, id: uuid::Uuid, payload: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(INSERT)?.execute(params![&id.as_bytes()[..], "bench", payload, 1])?;
    Ok(())
}

/// Claims up to `batch` rows; what a handler would need is read.
pub(crate) fn claim(conn: &Connection, batch: usize) -> rusqlite::Result<Vec<(i64, String, String)>> {
    let mut claim = conn.prepare_cached(CLAIM)?;
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let rows =
        claim.query_map(params![30_000_000, i64::MAX, batch], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

pub(crate) fn ack(conn: &Connection, seq: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(ACK)?.execute([seq])?;
    Ok(())
}

/// How many inserts share a commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Commit {
    Each,
    Group,
}

type Job = (uuid::Uuid, String, oneshot::Sender<()>);

/// A writer thread that commits each insert, or all that wait.
#[derive(Clone)]
pub(crate) struct Writer(mpsc::Sender<Job>);

impl Writer {
    pub(crate) fn start(conn: Connection, commit: Commit) -> Self {
        let (jobs, incoming) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            if let Err(error) = serve(&conn, &incoming, commit) {
                eprintln!("the raw writer failed: {error}");
            }
        });
        Self(jobs)
    }

    pub(crate) async fn insert(&self, id: uuid::Uuid, payload: String) -> anyhow::Result<()> {
        let (reply, answer) = oneshot::channel();
        self.0.send((id, payload, reply)).map_err(|_| anyhow::anyhow!("the raw writer is gone"))?;
        Ok(answer.await?)
    }
}

fn serve(conn: &Connection, jobs: &mpsc::Receiver<Job>, commit: Commit) -> rusqlite::Result<()> {
    let mut answers = Vec::new();
    while let Ok(first) = jobs.recv() {
        let started = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut next = Some(first);
        while let Some((id, payload, reply)) = next {
            insert(conn, id, &payload)?;
            answers.push(reply);
            let full = answers.len() >= 512 || started.elapsed() > Duration::from_millis(5);
            next = if commit == Commit::Each || full { None } else { jobs.try_recv().ok() };
        }
        conn.execute_batch("COMMIT")?;
        answers.drain(..).for_each(|reply| {
            let _ = reply.send(());
        });
    }
    Ok(())
}
