//! Finds messages by the id that an operator has from a log line, from `failed` or from `send`.

use anyhow::Result;
use postroom::message::Origin;
use postroom::operator::Record;
use postroom::queue::Queue;
use postroom::{Inbox, Message, Outbox};

use crate::open::Opened;
use crate::problem::Problem;

/// A row and its queue.
pub(super) struct Found {
    pub(super) queue: Queue,
    pub(super) record: Record,
}

/// All rows with that id; an error if there is none.
///
/// An id of the outbox is a UUID and may have one row for each destination. An id of the inbox is any text, given with
/// its source (`stripe/evt_1`) or without.
pub(super) async fn by_id(opened: &Opened, id: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    if let Ok(uuid) = uuid::Uuid::try_parse(id) {
        let records = Outbox::of(opened.store()).find(uuid).await?;
        found.extend(records.into_iter().map(|record| Found { queue: Queue::Outbox, record }));
    }
    let inbox = Inbox::of(opened.store());
    for key in inbox.keys_of(id).await? {
        let record = inbox.get(&key).await?;
        found.extend(record.map(|record| Found { queue: Queue::Inbox, record }));
    }
    if found.is_empty() {
        let what = format!("no message has the id {id}");
        let advice = "`postroom failed` or `postroom stats`; done messages are deleted after their retention time";
        return Err(Problem::nothing_found(what, advice).into());
    }
    Ok(found)
}

/// Returns the id by which `show` and `retry` find a message.
pub(super) fn id_of(message: &Message) -> String {
    match &message.origin {
        Origin::Inbox { key, .. } => key.to_string(),
        _ => message.id(),
    }
}
