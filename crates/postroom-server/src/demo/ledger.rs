//! The counts at the end, by plain SQL over the tables of the shop.

use std::time::Duration;

use anyhow::Result;
use postroom::queue::Queue;
use postroom::sql::TableNames;
use postroom::sqlite::SqliteStore;
use postroom::store::Store;
use serde::Serialize;

use crate::output;

/// The progress or the result of the demo.
#[derive(Clone, Serialize)]
pub(crate) struct Ledger {
    /// Orders that were placed.
    pub(crate) sent: u64,
    /// Orders that were handled.
    pub(crate) handled: u64,
    /// Orders that were placed and never handled.
    pub(crate) lost: u64,
    /// How many times an order was handled again.
    pub(crate) doubled: u64,
    /// How many times the worker was killed.
    pub(crate) kills: u64,
    /// Messages that were in progress in a killed worker, and that the next one handled.
    pub(crate) taken_over: u64,
    /// Messages that are still in the queue.
    pub(crate) left: u64,
    pub(crate) seconds: f64,
}

impl Ledger {
    /// Compares placed orders with handled orders.
    pub(crate) async fn read(store: &SqliteStore, kills: u64, took: Duration) -> Result<Self> {
        let sql = format!(
            "SELECT (SELECT count(*) FROM orders),
                    (SELECT count(DISTINCT order_id) FROM handled),
                    (SELECT count(*) FROM orders WHERE id NOT IN (SELECT order_id FROM handled)),
                    (SELECT count(*) - count(DISTINCT order_id) FROM handled),
                    (SELECT count(*) FROM {}_trouble WHERE crashes > 0)",
            TableNames::default().of(Queue::Outbox)
        );
        let left = store.backlog(Queue::Outbox).await?;
        let counts = store.read(move |conn| {
            Ok(conn.query_row(&sql, [], |row| {
                Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
            })?)
        });
        let [sent, handled, lost, doubled, taken_over] =
            counts.await?.map(|count| u64::try_from(count).unwrap_or_default());
        Ok(Self { sent, handled, lost, doubled, kills, taken_over, left, seconds: took.as_secs_f64() })
    }

    pub(crate) fn is_balanced(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.handled == self.sent
    }

    pub(crate) fn print(&self) -> Result<()> {
        let rows = [
            ("orders sent", output::thousands(self.sent)),
            ("orders handled", output::thousands(self.handled)),
            ("lost", output::thousands(self.lost)),
            ("doubled", output::thousands(self.doubled)),
            ("worker killed", output::count(self.kills, "time")),
            ("recovered", format!("{} from killed workers", output::count(self.taken_over, "message"))),
            ("time", format!("{:.1} s", self.seconds)),
        ];
        rows.iter().try_for_each(|(name, value)| output::line(format!("{name:<16}{value}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::TABLES;

    #[tokio::test]
    async fn what_is_lost_or_doubled_shows() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::open::file_or_create(&folder.path().join("shop.db")).await.unwrap();
        let rows = "INSERT INTO orders (id) VALUES (1), (2), (3); INSERT INTO handled (order_id) VALUES (1), (2), (2)";
        store.write(move |tx| Ok(tx.execute_batch(TABLES).and_then(|()| tx.execute_batch(rows))?)).await.unwrap();
        let ledger = Ledger::read(&store, 0, Duration::ZERO).await.unwrap();
        assert_eq!([ledger.sent, ledger.handled, ledger.lost, ledger.doubled], [3, 2, 1, 1]);
        assert!(!ledger.is_balanced());
    }
}
