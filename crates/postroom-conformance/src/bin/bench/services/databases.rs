//! Baseline ii: what both databases have to do in any case, by plain SQL, each with its own connection, at once. The
//! sender claims and acknowledges; the receiver looks for the id, writes the effect, and remembers id and answer.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow};
use rusqlite::{Connection, params};

use super::IN_FLIGHT;
use crate::sqlite::raw;

const RECEIVER: &str = "CREATE TABLE seen (source TEXT NOT NULL, id BLOB NOT NULL, topic TEXT NOT NULL,
    payload TEXT NOT NULL, answer TEXT, at INTEGER NOT NULL, PRIMARY KEY (source, id)) WITHOUT ROWID;
CREATE TABLE effects (message BLOB NOT NULL);";
const REMEMBER: &str = "INSERT INTO seen (source, id, topic, payload, answer, at) VALUES ('orders', ?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO NOTHING";
const EFFECT: &str = "INSERT INTO effects (message) VALUES (?1)";

pub(super) fn print_statements() {
    println!("The raw work of the receiver:\n\n{RECEIVER}\n\n{REMEMBER}\n\n{EFFECT}\n");
}

/// Messages a second, when both work at the same time.
pub(super) fn both(dir: &Path, messages: usize) -> Result<f64> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let payload = crate::payload();
    let sender = raw::open(dir, "wire-raw-sender.db")?;
    sender.execute_batch("BEGIN IMMEDIATE")?;
    for _ in 0..messages {
        raw::insert(&sender, uuid::Uuid::now_v7(), &payload)?;
    }
    sender.execute_batch("COMMIT")?;
    let receiver = raw::open(dir, "wire-raw-receiver.db")?;
    receiver.execute_batch(RECEIVER)?;
    let started = Instant::now();
    let sending = std::thread::spawn(move || send(&sender));
    receive(&receiver, messages, &payload)?;
    sending.join().map_err(|_| anyhow!("the raw sender panicked"))??;
    #[allow(clippy::cast_precision_loss, reason = "a count of messages")]
    let messages = messages as f64;
    Ok(messages / started.elapsed().as_secs_f64())
}

fn send(conn: &Connection) -> Result<()> {
    loop {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let claimed = raw::claim(conn, IN_FLIGHT)?;
        conn.execute_batch("COMMIT")?;
        if claimed.is_empty() {
            return Ok(());
        }
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for (seq, ..) in claimed {
            raw::ack(conn, seq)?;
        }
        conn.execute_batch("COMMIT")?;
    }
}

fn receive(conn: &Connection, messages: usize, payload: &str) -> Result<()> {
    let (mut remember, mut effect) = (conn.prepare(REMEMBER)?, conn.prepare(EFFECT)?);
    for first in (0..messages).step_by(IN_FLIGHT) {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for _ in first..messages.min(first + IN_FLIGHT) {
            let id = uuid::Uuid::now_v7();
            effect.execute([&id.as_bytes()[..]])?;
            remember.execute(params![&id.as_bytes()[..], "bench", payload, "\"done\"", 1])?;
        }
        conn.execute_batch("COMMIT")?;
    }
    Ok(())
}
