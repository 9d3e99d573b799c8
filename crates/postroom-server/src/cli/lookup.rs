//! Finding messages by the id an operator has: from a log line, from `failed`, from `send`.

use anyhow::Result;
use postroom::{Inbox, InboxKey, Message, Origin, Outbox, Queue, Record, SqliteStore, TableNames};

use crate::problem::Problem;

/// A row, and the table it stands in.
pub(super) struct Found {
    pub(super) queue: Queue,
    pub(super) record: Record,
}

/// All rows known by that id; that there is none is an error.
///
/// An id of the outbox is a UUID and may have one row for each destination. An id of the inbox is any text, given with
/// its source (`stripe/evt_1`) or without.
pub(super) async fn by_id(store: &SqliteStore, id: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    if let Ok(uuid) = uuid::Uuid::try_parse(id) {
        let records = Outbox::new(store.clone()).find(uuid).await?;
        found.extend(records.into_iter().map(|record| Found { queue: Queue::Outbox, record }));
    }
    let inbox = Inbox::new(store.clone());
    for key in inbox_keys(store, id).await? {
        let record = inbox.get(&key).await?;
        found.extend(record.map(|record| Found { queue: Queue::Inbox, record }));
    }
    if found.is_empty() {
        let what = format!("no message has the id {id}");
        let advice = "`postroom failed` or `postroom stats` for what is there; done messages are deleted after a while";
        return Err(Problem::nothing_found(what, advice).into());
    }
    Ok(found)
}

async fn inbox_keys(store: &SqliteStore, id: &str) -> Result<Vec<InboxKey>> {
    let table = TableNames::default().of(Queue::Inbox).to_owned();
    let id = id.to_owned();
    let keys = store.read(move |conn| {
        let matches = "message_id = ?1 OR source || '/' || message_id = ?1";
        let sql = format!("SELECT source, message_id FROM {table} WHERE {matches} ORDER BY seq");
        let mut select = conn.prepare(&sql)?;
        let keys = select.query_map([id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        keys.map(|key| key.map_err(Into::into).and_then(|(source, id)| InboxKey::new(source, id))).collect()
    });
    Ok(keys.await?)
}

/// What `show` and `retry` know a message by.
pub(super) fn id_of(message: &Message) -> String {
    match &message.origin {
        Origin::Inbox { key, .. } => key.to_string(),
        _ => message.id(),
    }
}
