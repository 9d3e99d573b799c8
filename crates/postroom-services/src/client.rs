//! A typed client for one destination: it sends only what `service!` declares for that destination.

use std::fmt;
use std::marker::PhantomData;

use postroom_core::mailbox::outbox::Outbox;
use postroom_core::mailbox::request::Pending;
use postroom_core::message::{MessageId, Outgoing, Payload, Replies};
use postroom_core::store::Stored;
use postroom_core::support::error::Result;

/// A destination that `service!` declared.
///
/// ```
/// // `service!` writes this for `destination billing { … }`.
/// struct Billing;
///
/// impl postroom::services::Target for Billing {
///     const NAME: &'static str = "billing";
/// }
/// ```
pub trait Target: 'static {
    /// The name of the destination service.
    const NAME: &'static str;
}

/// A destination that messages of type `P` are declared for.
///
/// ```
/// # use postroom::Signal;
/// # use postroom::services::{Accepts, Client, Target};
/// # #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// # #[signal("order.approved")]
/// # struct OrderApproved { order: u64 }
/// # struct Billing;
/// # impl Target for Billing { const NAME: &'static str = "billing"; }
/// // `service!` writes this for `sends: [OrderApproved]`. Nothing else can be sent there.
/// impl Accepts<OrderApproved> for Billing {}
///
/// let message = Client::<Billing>::outgoing(&OrderApproved { order: 7 }).message()?;
/// assert_eq!(message.topic(), "order.approved");
/// # Ok::<(), postroom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{P}` is not declared for the destination `{Self}`",
    label = "not among what the destination is sent",
    note = "add it to `sends: […]` of that destination in `service!`"
)]
pub trait Accepts<P: Payload>: Target {}

/// Sends what is declared for the destination `T`. Each message is in the outbox before the call returns.
///
/// `service!` creates one client for each destination.
///
/// ```
/// # use postroom::{Outbox, Signal};
/// # use postroom::services::{Accepts, Client, Target};
/// # use postroom::store::MemoryStore;
/// # #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// # #[signal("order.approved")]
/// # struct OrderApproved { order: u64 }
/// # struct Billing;
/// # impl Target for Billing { const NAME: &'static str = "billing"; }
/// # impl Accepts<OrderApproved> for Billing {}
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let billing = Client::<Billing>::new(outbox.clone());
/// let sent = billing.send(&OrderApproved { order: 7 }).await?;
/// let found = outbox.find(sent.id().as_uuid()).await?;
/// assert_eq!(found[0].message().unwrap().destination(), Some("billing"));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub struct Client<T> {
    outbox: Outbox,
    target: PhantomData<fn() -> T>,
}

impl<T: Target> Client<T> {
    /// Creates a client that sends through this outbox.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, target: PhantomData }
    }

    /// Sends a payload in its own transaction. The message is durable when this returns.
    pub async fn send<P: Payload>(&self, payload: &P) -> Result<Stored>
    where
        T: Accepts<P>,
    {
        self.outbox.enqueue(Self::outgoing(payload)).await
    }

    /// Sends a command in its own transaction, and returns a handle that waits for the answer.
    pub async fn request<C: Replies>(&self, command: &C) -> Result<Pending<C::Reply>>
    where
        T: Accepts<C>,
    {
        self.outbox.request(Self::outgoing(command)).await
    }

    /// Returns a handle that waits for the answer to an earlier command. The program that sent the command may have
    /// ended since.
    pub fn requested<C: Replies>(&self, id: MessageId) -> Pending<C::Reply>
    where
        T: Accepts<C>,
    {
        self.outbox.requested(id, T::NAME)
    }

    /// Builds a message for this destination without sending it. Use it to set a due time or a correlation id, or to
    /// send in your own transaction.
    #[inline]
    pub fn outgoing<P: Payload>(payload: &P) -> Outgoing<P>
    where
        T: Accepts<P>,
    {
        payload.outgoing().to(T::NAME)
    }
}

impl<T> Clone for Client<T> {
    fn clone(&self) -> Self {
        Self { outbox: self.outbox.clone(), target: PhantomData }
    }
}

impl<T: Target> fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("to", &T::NAME).finish_non_exhaustive()
    }
}
