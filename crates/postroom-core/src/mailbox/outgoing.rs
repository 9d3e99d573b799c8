//! How a typed payload gets into an outbox.

use crate::mailbox::outbox::{Enqueued, Outbox};
use crate::mailbox::request::Pending;
use crate::message::{Outgoing, Payload, Replies};
use crate::sql::{BlockingTx, Tx};
use crate::store::Stored;
use crate::support::error::{Error, Result};

impl<P: Payload> Outgoing<P> {
    /// Puts it into the outbox in a transaction of its own; it is durable when this returns.
    pub async fn enqueue(self, outbox: &Outbox) -> Result<Stored> {
        outbox.enqueue(self.message()?).await
    }

    /// Puts it into the outbox in the caller's own transaction: it is there if and only if the caller commits. Keep
    /// what it returns until then.
    pub async fn enqueue_in(self, outbox: &Outbox, tx: &mut impl Tx) -> Result<Enqueued> {
        outbox.enqueue_in(tx, &self.message()?).await
    }

    /// Like [`enqueue_in`](Self::enqueue_in), on a connection that answers at once.
    pub fn enqueue_in_blocking(self, outbox: &Outbox, tx: &impl BlockingTx) -> Result<Enqueued> {
        outbox.enqueue_in_blocking(tx, &self.message()?)
    }
}

impl<C: Replies> Outgoing<C> {
    /// Puts it into the outbox in a transaction of its own, and gives what waits for the answer.
    ///
    /// ```
    /// # use postroom::{Command, Outbox, Payload};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize, Command)]
    /// #[command("stock.reserve", reply = Reserved)]
    /// struct Reserve { order: u64 }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Reserved { shelf: String }
    ///
    /// # async fn f(outbox: Outbox) -> postroom::Result<()> {
    /// let reserved = Reserve { order: 7 }.outgoing().to("inventory").request(&outbox).await?.answer().await?;
    /// println!("it is on {}", reserved.shelf);
    /// # Ok(()) }
    /// ```
    pub async fn request(self, outbox: &Outbox) -> Result<Pending<C::Reply>> {
        let message = self.message()?;
        let to = message.destination.clone();
        let to = to.ok_or_else(|| Error::invalid("only another service answers: say which with `to`"))?;
        let request = outbox.requested(message.message_id(), &to);
        outbox.enqueue(message).await?;
        Ok(request.typed())
    }
}
