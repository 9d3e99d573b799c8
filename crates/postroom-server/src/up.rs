//! A node: what it does with messages, where it listens and sends, how it is told to stop or to read its configuration
//! again.

pub(crate) mod backups;
mod exec;
pub(crate) mod greeting;
mod group;
mod node;
mod pipes;
mod print;
mod push;
mod reload;
mod serve;
pub(crate) mod signals;
mod ways;
mod work;

pub(crate) use exec::Command;
pub(crate) use node::{Node, run};

use postroom::{Message, Queue};

/// Where a node receives unless its configuration says otherwise.
pub(crate) const RECEIVER: &str = "http://127.0.0.1:7410";

/// The queue a message stands in.
fn queue_of(message: &Message) -> Queue {
    match message.source() {
        Some(_) => Queue::Inbox,
        None => Queue::Outbox,
    }
}
