//! The checker. It knows nothing but the producer's book, the orders, the effects and where the messages stand.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use rusqlite::Connection;

use super::book::Entries;
use super::place::Place;
use super::rows::Rows;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acknowledged: u64,
    pub(crate) effects: u64,
    /// Acknowledged, and without an effect.
    pub(crate) lost: u64,
    /// Effects beyond the first of their message.
    pub(crate) doubled: u64,
    /// Effects whose order is not there.
    pub(crate) ghosts: u64,
    /// Halves of what must be whole: an order without its message, an effect without its settled inbox row, or the
    /// other way round.
    pub(crate) torn: u64,
    /// Settles by somebody else than the one who held the row.
    pub(crate) stale_applied: u64,
    /// Messages given up.
    pub(crate) dead: u64,
}

const TORN_ORDERS: &str = "SELECT
    (SELECT count(*) FROM orders WHERE lower(replace(message_id, '-', ''))
        NOT IN (SELECT lower(hex(message_id)) FROM outbox_messages)) +
    (SELECT count(*) FROM outbox_messages WHERE lower(hex(message_id))
        NOT IN (SELECT lower(replace(message_id, '-', '')) FROM orders))";

const TORN_EFFECTS: &str = "SELECT
    (SELECT count(*) FROM effects WHERE message_id NOT IN (SELECT message_id FROM inbox_messages WHERE state = 2)) +
    (SELECT count(*) FROM inbox_messages WHERE state = 2 AND message_id NOT IN (SELECT message_id FROM effects))";

pub(crate) fn check(place: &Place, rows: &Rows) -> Result<Findings> {
    let entries = Entries::read(&place.book_path())?;
    let orders: BTreeSet<String> = texts(&rows.orders, "SELECT message_id FROM orders")?.into_iter().collect();
    let mut effects: BTreeMap<String, u64> = BTreeMap::new();
    for message in texts(&rows.ledger, "SELECT message_id FROM effects")? {
        *effects.entry(message).or_default() += 1;
    }
    let mut found = Findings {
        acknowledged: u64::try_from(entries.acknowledged.len())?,
        effects: effects.values().sum(),
        doubled: effects.values().map(|times| times - 1).sum(),
        ghosts: u64::try_from(effects.keys().filter(|message| !orders.contains(*message)).count())?,
        torn: count(&rows.orders, TORN_ORDERS)? + count(&rows.ledger, TORN_EFFECTS)?,
        ..Findings::default()
    };
    for order in &entries.acknowledged {
        let message = place.message_id(*order)?.to_string();
        found.lost += u64::from(!effects.contains_key(&message));
    }
    for (conn, table) in [(&rows.orders, "outbox_messages"), (&rows.ledger, "inbox_messages")] {
        found.stale_applied += count(conn, "SELECT count(*) FROM stale_settles")?;
        found.dead += count(conn, &format!("SELECT count(*) FROM {table} WHERE state IN (3, 4)"))?;
    }
    Ok(found)
}

pub(crate) fn count(conn: &Connection, sql: &str) -> Result<u64> {
    Ok(u64::try_from(conn.query_row(sql, [], |row| row.get::<_, i64>(0))?)?)
}

fn texts(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let texts = statement.query_map([], |row| row.get(0))?;
    Ok(texts.collect::<rusqlite::Result<_>>()?)
}
