//! A program that uses Diesel on SQLite.

#![allow(missing_docs, reason = "the ORM writes code")]

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, RunQueryDsl, SqliteConnection};
use postroom::message::OwnerToken;
use postroom::sqlite::SqliteOptions;
use postroom::{ErrorKind, Inbox, InboxKey, Incoming, NewMessage, Outbox};
use postroom_orms::with_diesel::{accept, ack, enqueue};

diesel::table! {
    orders (id) {
        id -> Integer,
    }
}

fn place_order(tx: &mut SqliteConnection, id: i32) -> anyhow::Result<()> {
    diesel::insert_into(orders::table).values(diesel::ExpressionMethods::eq(orders::id, id)).execute(tx)?;
    Ok(())
}

fn orders_placed(conn: &mut SqliteConnection) -> anyhow::Result<i64> {
    Ok(diesel::QueryDsl::count(orders::table).get_result(conn)?)
}

#[tokio::test]
async fn a_message_travels_with_the_order() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let store = SqliteOptions::new(&path).deploy_schema(true).open().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store));
    let mut conn = SqliteConnection::establish(&path.to_string_lossy())?;
    conn.batch_execute("PRAGMA busy_timeout = 5000; CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;

    // Both are stored; the same message again is told, and the transaction goes on.
    let message = NewMessage::new("order.placed", "'7' 🦀").to("billing");
    conn.immediate_transaction(|tx| -> anyhow::Result<()> {
        place_order(tx, 7)?;
        assert!(enqueue(tx, &outbox, &message)?);
        assert!(!enqueue(tx, &outbox, &message)?);
        Ok(())
    })?;
    let stored = outbox.find(message.message_id().as_uuid()).await?;
    assert_eq!(stored[0].message().map(|message| message.payload.clone()), Ok("'7' 🦀".to_owned()));

    // Neither is.
    let failed = conn.immediate_transaction(|tx| -> anyhow::Result<()> {
        place_order(tx, 8)?;
        enqueue(tx, &outbox, &NewMessage::new("order.placed", "8"))?;
        anyhow::bail!("no stock")
    });
    assert!(failed.is_err());
    assert_eq!((outbox.queue().stats().await?.total(), orders_placed(&mut conn)?), (1, 1));

    // Accepted once, also after somebody asked for it; applied and acknowledged together.
    let incoming = Incoming::new(InboxKey::new("shop", "9")?, "order.placed", "9");
    assert!(!inbox.already_processed(incoming.key()).await?);
    let accepted =
        |tx: &mut SqliteConnection| anyhow::Ok([accept(tx, &inbox, &incoming)?, accept(tx, &inbox, &incoming)?]);
    assert_eq!(conn.immediate_transaction(accepted)?, [true, false]);
    let claims = inbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
    for (attempt, claimed) in claims.claimed.iter().cycle().take(2).enumerate() {
        let applied = conn.immediate_transaction(|tx| -> anyhow::Result<()> {
            place_order(tx, 9 + i32::try_from(attempt)?)?;
            ack(tx, &inbox, &claimed.lease, None)
        });
        // The second time the lease is gone.
        let lost = applied.as_ref().err().and_then(|error| error.downcast_ref::<postroom::Error>());
        assert_eq!(lost.map(postroom::Error::kind), (attempt == 1).then_some(ErrorKind::LeaseLost), "{applied:?}");
    }
    assert_eq!((inbox.queue().stats().await?.done, orders_placed(&mut conn)?), (1, 2));
    Ok(())
}
