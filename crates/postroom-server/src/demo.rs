//! The demonstration's parts: orders flow, the worker is killed again and again, and nothing is lost or doubled.

pub(crate) mod child;
pub(crate) mod ledger;
pub(crate) mod producer;
pub(crate) mod progress;
pub(crate) mod stage;
pub(crate) mod worker;

use postroom::Payload;
use serde::{Deserialize, Serialize};

/// The shop's own tables. Nothing but the transaction keeps `handled` from holding an order twice.
const TABLES: &str = "
    CREATE TABLE orders (id INTEGER PRIMARY KEY);
    CREATE TABLE handled (order_id INTEGER NOT NULL);
";

/// What the shop tells about an order.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct OrderPlaced {
    order: u64,
}

impl Payload for OrderPlaced {
    const TOPIC: &'static str = "order.placed";
    type Reply = ();
}
