//! Both databases, as the parent sees and locks them.

use anyhow::Result;
use rusqlite::Connection;

use super::check::count;
use super::place::{Place, connect};

/// An inbox row that is held, by whom, and by the how-manieth claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    seq: i64,
    claim_no: i64,
    owner: Vec<u8>,
}

/// What the one holds who claimed last. Others may have died lately and seem to hold something still.
pub(crate) fn latest(held: impl Iterator<Item = Held>) -> Vec<Held> {
    let held: Vec<Held> = held.collect();
    let owner = held.last().map(|last| last.owner.clone());
    held.into_iter().filter(|lease| Some(&lease.owner) == owner.as_ref()).collect()
}

/// Both databases, as the parent sees and locks them.
pub(crate) struct Rows {
    pub(crate) orders: Connection,
    pub(crate) ledger: Connection,
}

impl Rows {
    pub(crate) fn open(place: &Place) -> Result<Self> {
        Ok(Self { orders: connect(&place.orders_path())?, ledger: connect(&place.ledger_path())? })
    }

    /// Nobody else writes to it until it is unlocked.
    pub(crate) fn lock_orders(&self) -> Result<()> {
        Ok(self.orders.execute_batch("BEGIN IMMEDIATE")?)
    }

    pub(crate) fn lock_ledger(&self) -> Result<()> {
        Ok(self.ledger.execute_batch("BEGIN IMMEDIATE")?)
    }

    pub(crate) fn unlock(&self) -> Result<()> {
        self.ledger.execute_batch("ROLLBACK")?;
        Ok(self.orders.execute_batch("ROLLBACK")?)
    }

    /// Messages that wait or are held, in both databases. Accepted is before acknowledged: none is between the two.
    pub(crate) fn backlog(&self) -> Result<u64> {
        let unsent = count(&self.orders, "SELECT count(*) FROM outbox_messages WHERE state IN (0, 1)")?;
        let unhandled = count(&self.ledger, "SELECT count(*) FROM inbox_messages WHERE state IN (0, 1)")?;
        Ok(unsent + unhandled)
    }

    /// The inbox rows that are held, in the order in which they were claimed.
    pub(crate) fn leases(&self) -> Result<Vec<Held>> {
        let sql = "SELECT seq, claim_no, owner FROM inbox_messages WHERE state = 1 ORDER BY last_attempt_at";
        let mut statement = self.ledger.prepare_cached(sql)?;
        let leases =
            statement.query_map([], |row| Ok(Held { seq: row.get(0)?, claim_no: row.get(1)?, owner: row.get(2)? }))?;
        Ok(leases.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether one of these rows is in this state under a later claim.
    pub(crate) fn is_taken_over(&self, leases: &[Held], state: i64) -> Result<bool> {
        let sql = "SELECT 1 FROM inbox_messages WHERE seq = ?1 AND claim_no > ?2 AND state = ?3";
        let mut statement = self.ledger.prepare_cached(sql)?;
        for lease in leases {
            if statement.exists((lease.seq, lease.claim_no, state))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an outbox message is settled.
    pub(crate) fn is_sent(&self, message: &str) -> Result<bool> {
        let id = uuid::Uuid::try_parse(message)?;
        let sql = "SELECT 1 FROM outbox_messages WHERE message_id = ?1 AND state > 1";
        Ok(self.orders.prepare_cached(sql)?.exists([id.as_bytes()])?)
    }
}
