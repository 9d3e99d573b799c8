//! A program with a rusqlite connection of its own: enqueue, and acknowledge, in its own transactions.
//!
//! `cargo run -p postroom --features sqlite --example own_connection`

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::sqlite::SqliteOptions;
use postroom::{Inbox, InboxKey, Incoming, NewMessage, Outbox};
use rusqlite::{Connection, TransactionBehavior};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.db");
    let store = SqliteOptions::new(&path).deploy_schema(true).open().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));

    // The program's own connection. FULL, because an acknowledgement must survive a power cut.
    let mut conn = Connection::open(&path)?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000; CREATE TABLE notes (text TEXT)")?;

    // Written and enqueued, or neither.
    let mut tx = outbox.begin_blocking(&mut conn)?;
    tx.execute("INSERT INTO notes (text) VALUES ('hello')", [])?;
    let stored = tx.enqueue(NewMessage::new("note.written", "hello"))?;
    tx.commit()?; // and workers are woken
    println!("enqueued {}", stored.id());

    // Rolled back: the message never was.
    let mut tx = outbox.begin_blocking(&mut conn)?;
    tx.enqueue(NewMessage::new("note.written", "never"))?;
    tx.rollback()?;
    assert_eq!(outbox.queue().stats().await?.ready, 1);

    // A message that arrived is applied and acknowledged in one transaction. A lost lease is an error there, so that
    // `?` leaves before the commit.
    inbox.accept(Incoming::new(InboxKey::new("billing", "42")?, "invoice.paid", "42")).await?;
    let claims = inbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
    for claimed in claims.claimed {
        let message = claimed.message?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute("INSERT INTO notes (text) VALUES (?1)", [&message.payload])?;
        inbox.ack_in_blocking(&tx, &claimed.lease, None)?;
        tx.commit()?;
        println!("handled {} from {}", message.id(), message.source().unwrap_or("here"));
    }
    assert_eq!(inbox.queue().stats().await?.done, 1);
    Ok(())
}
