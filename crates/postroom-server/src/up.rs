//! What a worker of this program does with a message, and how it is told to stop.

pub(crate) mod exec;
pub(crate) mod greeting;
mod group;
mod pipes;
pub(crate) mod print;
pub(crate) mod signals;

use postroom::{Message, Queue};

/// The queue a message stands in.
fn queue_of(message: &Message) -> Queue {
    match message.source() {
        Some(_) => Queue::Inbox,
        None => Queue::Outbox,
    }
}
