//! The parts of the demo: orders flow, the worker is killed again and again, and no message is lost or handled twice.

pub(crate) mod child;
pub(crate) mod ledger;
pub(crate) mod producer;
pub(crate) mod progress;
pub(crate) mod stage;
pub(crate) mod worker;

use postroom::Payload;
use serde::{Deserialize, Serialize};

/// The tables of the shop. Only the transaction keeps `handled` free of duplicates.
const TABLES: &str = "
    CREATE TABLE orders (id INTEGER PRIMARY KEY);
    CREATE TABLE handled (order_id INTEGER NOT NULL);
";

/// The message about an order.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct OrderPlaced {
    order: u64,
}

impl Payload for OrderPlaced {
    const TOPIC: &'static str = "order.placed";
    type Reply = ();
}
