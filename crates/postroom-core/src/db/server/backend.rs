//! The part of handling that is the same on every database server.

use std::convert::Infallible;
use std::time::Duration;

use crate::db::server::{Engine, HandlerTx, ServerStore};
use crate::message::{Incoming, MessageId, NewMessage};
use crate::store::unique::{self, OnSession};
use crate::store::{Admission, HandledMark, Stored};
use crate::support::error::Result;
use crate::work::handler::{Ack, Backend};

/// Says what a handler borrows of a server's connection.
pub trait Lends {
    /// The driver's own connection.
    type Lent: Send + 'static;
}

impl<E: Engine> Backend for E {
    type Store = ServerStore<E>;
    type Tx = HandlerTx<E>;
    type Conn<'t> = &'t mut E::Lent;
    type Blocking = Infallible;

    async fn begin(store: &ServerStore<E>, _: Duration) -> Result<HandlerTx<E>> {
        HandlerTx::begin(store).await
    }

    fn conn(tx: &mut HandlerTx<E>) -> &mut E::Lent {
        E::lend(&mut tx.link)
    }

    async fn enqueue(tx: &mut HandlerTx<E>, message: NewMessage) -> Result<Stored> {
        tx.enqueued = true;
        let insert = tx.core.verbs.insert(&message, tx.core.clock.now())?;
        unique::store(&mut OnSession(&mut tx.link), &message, &insert).await
    }

    async fn arrive(tx: &mut HandlerTx<E>, incoming: &Incoming, hold: Duration) -> Result<Admission> {
        let now = tx.core.clock.now();
        tx.core.verbs.arrive(&mut tx.link, incoming, hold, now).await
    }

    async fn answer(tx: &mut HandlerTx<E>, request: MessageId, from: &str, response: &str) -> Result<bool> {
        let now = tx.core.clock.now();
        tx.core.verbs.answer(&mut tx.link, (request, from), response, now).await
    }

    async fn mark(tx: &mut HandlerTx<E>, mark: &HandledMark, topic: &str) -> Result<bool> {
        let now = tx.core.clock.now();
        let marked_at = tx.core.verbs.put_mark(&mut tx.link, mark, topic, now).await?;
        tx.marked = marked_at.map(|at| (mark.clone(), at));
        Ok(marked_at.is_some())
    }

    async fn commit(tx: HandlerTx<E>, ack: Option<Ack<'_>>) -> Result<()> {
        tx.commit(ack.map(|(queue, lease, response)| (queue, lease.clone(), response))).await
    }

    async fn roll_back(tx: HandlerTx<E>) -> bool {
        tx.roll_back().await
    }
}
