//! From the outbox to a broker, and from a broker to the inbox.
//!
//! A broker delivers at least once. What it brings is known again by its id, so that its handler's effects happen once;
//! and the broker is told to forget it only after the inbox has committed.

pub mod intake;
pub mod nats;
pub mod rabbitmq;

// The programs in the guide are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../guides/brokers.md")]
mod guide {}
