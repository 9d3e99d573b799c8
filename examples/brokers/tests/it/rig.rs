//! A broker as the tests see it: with a queue of their own, and ways to put something into it from outside.

use std::sync::atomic::{AtomicU32, Ordering};

use postroom::Inbox;
use postroom::worker::Transport;
use postroom_testbed::BrokerKind;

/// A message that somebody else sends.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) payload: &'a [u8],
}

pub(crate) trait Rig: Sized + Send + Sync + 'static {
    const KIND: BrokerKind;

    async fn set_up(url: &str) -> anyhow::Result<Self>;

    /// Where outbox messages go so that they come into the queue.
    fn destination(&self) -> String;

    fn transport(&self) -> impl Transport;

    /// The recipe.
    fn take_all(&self, inbox: &Inbox, shutdown: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send;

    /// Sends something from outside, under the topic `order.placed`.
    async fn put(&self, raw: Raw<'_>) -> anyhow::Result<()>;

    /// An id that the broker takes and no inbox does.
    fn bad_id() -> String;

    /// Takes one message into the inbox and dies before the broker is told.
    async fn take_one_and_die(&self, inbox: &Inbox) -> anyhow::Result<()>;

    /// Whether somebody took a message out of the queue, be it to give it back.
    async fn was_taken(&self) -> anyhow::Result<bool>;

    /// How many messages the broker still has for us.
    async fn left(&self) -> anyhow::Result<u64>;
}

/// A name that no other test uses.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("pr-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
