//! Checks on the content of an outbox.

use crate::mailbox::outbox::Outbox;
use crate::message::{Message, Payload};
use crate::store::{Filter, Record};
use crate::support::error::Result;

const ROWS_MAX: usize = 100_000;

/// Returns the payloads of this type in the outbox, oldest first, whether they have been handled or not.
///
/// ```
/// # use postroom::testing::{Workbench, enqueued};
/// # #[derive(serde::Serialize, serde::Deserialize, postroom::Event)]
/// # #[event("order.placed")]
/// # struct OrderPlaced { order: u64 }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let bench = Workbench::memory();
/// bench.outbox().enqueue(&OrderPlaced { order: 7 }).await?;
/// assert_eq!(enqueued::<OrderPlaced>(bench.outbox()).await?[0].order, 7);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub async fn enqueued<P: Payload>(outbox: &Outbox) -> Result<Vec<P>> {
    rows(outbox, Some(P::TOPIC)).await?.iter().map(Message::read).collect()
}

/// Checks that this payload is in the outbox, and returns its message. It does not matter whether it has been handled.
///
/// # Panics
///
/// Panics when it is not there, and lists what is.
///
/// ```
/// # use postroom::testing::{Workbench, assert_enqueued};
/// # #[derive(serde::Serialize, serde::Deserialize, postroom::Event)]
/// # #[event("order.placed")]
/// # struct OrderPlaced { order: u64 }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let bench = Workbench::memory();
/// bench.outbox().enqueue(&OrderPlaced { order: 7 }).await?;
/// let message = assert_enqueued(bench.outbox(), &OrderPlaced { order: 7 }).await;
/// assert_eq!(message.destination(), None);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub async fn assert_enqueued<P: Payload>(outbox: &Outbox, expected: &P) -> Message {
    let wanted = match serde_json::to_value(expected) {
        Ok(wanted) => wanted,
        Err(error) => panic!("the expected payload cannot be encoded: {error}"),
    };
    let all = rows(outbox, None).await.unwrap_or_else(|error| panic!("the outbox cannot be read: {error}"));
    let is_it = |message: &&Message| {
        message.topic == P::TOPIC
            && serde_json::from_str(&message.payload).is_ok_and(|found: serde_json::Value| found == wanted)
    };
    match all.iter().find(is_it) {
        Some(message) => message.clone(),
        None => panic!("{} {wanted} is not in the outbox, which contains{}", P::TOPIC, listed(&all)),
    }
}

/// Checks that no payload of this type is in the outbox.
///
/// # Panics
///
/// Panics when there is one, and lists them.
///
/// ```
/// # use postroom::testing::{Workbench, assert_not_enqueued};
/// # #[derive(serde::Serialize, serde::Deserialize, postroom::Event)]
/// # #[event("order.placed")]
/// # struct OrderPlaced { order: u64 }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let bench = Workbench::memory();
/// assert_not_enqueued::<OrderPlaced>(bench.outbox()).await;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub async fn assert_not_enqueued<P: Payload>(outbox: &Outbox) {
    let found = rows(outbox, Some(P::TOPIC)).await.unwrap_or_else(|error| panic!("the outbox cannot be read: {error}"));
    assert!(found.is_empty(), "{} was not expected in the outbox, which contains{}", P::TOPIC, listed(&found));
}

async fn rows(outbox: &Outbox, topic: Option<&str>) -> Result<Vec<Message>> {
    let filter = Filter::all().limit(ROWS_MAX);
    let filter = match topic {
        Some(topic) => filter.topic(topic),
        None => filter,
    };
    let rows = outbox.queue().list(filter).await?;
    Ok(rows.iter().map(Record::message).filter_map(std::result::Result::ok).cloned().collect())
}

fn listed(messages: &[Message]) -> String {
    if messages.is_empty() {
        return " nothing".into();
    }
    let lines = messages.iter().map(|message| {
        let to = message.destination().map(|to| format!(" to {to}")).unwrap_or_default();
        format!("\n  {}{to} {}", message.topic, message.payload)
    });
    lines.collect()
}
