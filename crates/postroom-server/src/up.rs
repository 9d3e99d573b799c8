//! A node: how it handles messages, where it listens and sends, and how it stops or reloads its configuration.

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

use postroom::Message;
use postroom::queue::Queue;

/// The default address of the receiver.
pub(crate) const RECEIVER: &str = "http://127.0.0.1:7410";

/// The queue of a message.
fn queue_of(message: &Message) -> Queue {
    match message.source() {
        Some(_) => Queue::Inbox,
        None => Queue::Outbox,
    }
}
