//! What can be put in an outbox.

use crate::message::{NewMessage, Outgoing, Payload};
use crate::support::error::Result;

/// Something that can be put in an outbox: a typed payload by reference, a typed payload with options
/// ([`Payload::outgoing`]), or a [`NewMessage`] with any topic.
///
/// ```
/// use postroom::{NewMessage, Outbox, Payload, Signal};
/// use postroom::store::MemoryStore;
///
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64 }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(&OrderApproved { order: 7 }).await?;
/// outbox.enqueue(OrderApproved { order: 7 }.outgoing().to("billing")).await?;
/// outbox.enqueue(NewMessage::new("order.approved", r#"{"order":7}"#)).await?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be put in an outbox",
    label = "neither a message nor a reference to a typed payload",
    note = "pass `&payload`, `payload.outgoing()…` or a `NewMessage`"
)]
pub trait IntoMessage {
    /// Converts it to a message.
    fn into_message(self) -> Result<NewMessage>;
}

impl IntoMessage for NewMessage {
    fn into_message(self) -> Result<NewMessage> {
        Ok(self)
    }
}

impl IntoMessage for &NewMessage {
    fn into_message(self) -> Result<NewMessage> {
        Ok(self.clone())
    }
}

impl<P: Payload> IntoMessage for Outgoing<P> {
    fn into_message(self) -> Result<NewMessage> {
        self.message()
    }
}

impl<P: Payload + Sync> IntoMessage for &P {
    fn into_message(self) -> Result<NewMessage> {
        NewMessage::of(self)
    }
}
