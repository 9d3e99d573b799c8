//! A command whose answer is waited for.

use crate::mailbox::outbox::Outbox;
use crate::mailbox::request::Pending;
use crate::message::{Outgoing, Replies};
use crate::support::error::{Error, Result};

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
