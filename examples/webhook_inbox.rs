//! A webhook that is delivered three times, and applied once.
//!
//! `cargo run -p postroom --features sqlite --example webhook_inbox`

use std::time::Duration;

use postroom::sqlite::{BlockingCtx, SqliteOptions};
use postroom::{HandlerError, Handlers, Inbox, InboxKey, Incoming, Payload, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

#[derive(Serialize, Deserialize)]
struct PaymentReceived {
    cents: i64,
}

impl Payload for PaymentReceived {
    const TOPIC: &'static str = "payment.received";
    type Reply = ();
}

fn book(ctx: &mut BlockingCtx<'_>, payment: PaymentReceived) -> Result<(), HandlerError> {
    ctx.tx().execute("INSERT INTO bookings (cents) VALUES (?1)", [payment.cents])?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = SqliteOptions::new(folder.path().join("bank.db")).deploy_schema(true).open().await?;
    store.write(|tx| Ok(tx.execute_batch("CREATE TABLE bookings (cents INTEGER)")?)).await?;
    let inbox = Inbox::new(store.clone());

    // What a web server would do for each request, after it has checked the signature.
    for attempt in 1..=3 {
        let body = r#"{"cents":4200}"#;
        let incoming = Incoming::new(InboxKey::new("stripe", "evt_1")?, PaymentReceived::TOPIC, body)
            .hash(postroom::message::hash_bytes(body));
        let arrival = inbox.accept(incoming).await?;
        println!("delivery {attempt}: {}", if arrival.is_duplicate() { "known" } else { "new" });
    }

    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::inbox(store.clone(), Handlers::new().on_blocking(book)).run(async { drop(stopped.await) });
    let handled = async {
        let mut look = tokio::time::interval(Duration::from_millis(5));
        while inbox.queue().stats().await?.done < 1 {
            look.tick().await;
        }
        let _ = stop.send(());
        postroom::Result::Ok(())
    };
    let (worked, handled) = tokio::join!(worker, handled);
    worked.and(handled)?;

    let bookings: i64 =
        store.read(|conn| Ok(conn.query_row("SELECT count(*) FROM bookings", [], |row| row.get(0))?)).await?;
    println!("booked {bookings} time");
    assert_eq!(bookings, 1);
    Ok(())
}
