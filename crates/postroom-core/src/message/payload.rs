//! Typed messages: what a type says of the messages it travels in.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Headers, Kind, Message, Outgoing, json};
use crate::support::error::{Error, ErrorKind, Result};

/// Says which version of its type a payload was written by; without it, the first.
pub(crate) const VERSION_HEADER: &str = "payload-version";

/// A type that travels as the payload of a message, as JSON, under one topic.
///
/// Derive `Event`, `Signal` or `Command`
/// instead of writing this by hand.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderApproved { order: u64 }
///
/// impl postroom::Payload for OrderApproved {
///     const TOPIC: &'static str = "order.approved";
///     type Reply = ();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    label = "not a message",
    note = "derive `postroom::Event`, `postroom::Signal` or `postroom::Command` for it"
)]
pub trait Payload: Serialize + DeserializeOwned + Send + 'static {
    /// Routes the message to its handler.
    const TOPIC: &'static str;
    /// What kind of message it is.
    const KIND: Kind = Kind::Event;
    /// Which version of the type this is, from one: it travels with the message.
    const VERSION: u32 = 1;
    /// Whether it is refused when it has a destination: what derives [`Event`] stays in this service.
    const STAYS_HERE: bool = false;
    /// What its handler answers: `()` is no answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// Reads what a type of that version wrote.
    fn read(version: u32, json: &str) -> Result<Self> {
        if version == Self::VERSION {
            return json::read(format_args!("the payload for {}", Self::TOPIC), json);
        }
        if version < Self::VERSION { Self::upcast(version, json) } else { Err(unknown_version::<Self>(version)) }
    }

    /// Reads what a type of an older version wrote. Unless told otherwise, nothing older can be read.
    ///
    /// The derives write this from `upcast_from`:
    ///
    /// ```
    /// use postroom::Signal;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Signal)]
    /// #[signal("order.approved")]
    /// struct OrderApprovedV1 { order: u64 }
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Signal)]
    /// #[signal("order.approved", version = 2, upcast_from = OrderApprovedV1)]
    /// struct OrderApproved { order: u64, by: String }
    ///
    /// impl From<OrderApprovedV1> for OrderApproved {
    ///     fn from(old: OrderApprovedV1) -> Self { Self { order: old.order, by: "unknown".into() } }
    /// }
    ///
    /// let old = <OrderApproved as postroom::Payload>::read(1, r#"{"order":7}"#)?;
    /// assert_eq!((old.order, old.by.as_str()), (7, "unknown"));
    /// # Ok::<(), postroom::Error>(())
    /// ```
    fn upcast(version: u32, _json: &str) -> Result<Self> {
        Err(unknown_version::<Self>(version))
    }

    /// A message with this payload, for a handler in this service unless it is given a destination.
    #[inline]
    fn outgoing(&self) -> Outgoing<Self> {
        Outgoing::of(self)
    }
}

fn unknown_version<P: Payload>(version: u32) -> Error {
    let (topic, own) = (P::TOPIC, P::VERSION);
    Error::new(
        ErrorKind::Corrupt,
        format!("the payload for {topic} has version {version}; this program knows version {own}"),
    )
}

/// Something that happened here and is handled here: derive it with `#[derive(Event)]`. With a destination it is
/// refused; what another service wants to know is a [`Signal`].
///
/// ```
/// use postroom::{Event, Outbox, Result};
/// use postroom::queue::Stored;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// async fn tell<E: Event + Sync>(outbox: &Outbox, event: &E) -> Result<Stored> {
///     outbox.enqueue(event).await
/// }
/// # async fn f(outbox: Outbox) -> Result<()> {
/// tell(&outbox, &OrderPlaced { order: 7 }).await?;
/// # Ok(()) }
/// ```
pub trait Event: Payload {}

/// Something that happened and that another service wants to know: derive it with `#[derive(Signal)]`.
///
/// ```
/// use postroom::{NewMessage, Payload, Result, Signal};
///
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64 }
///
/// fn to_all<S: Signal>(signal: &S, services: &[&str]) -> Result<Vec<NewMessage>> {
///     services.iter().map(|service| signal.outgoing().to(*service).message()).collect()
/// }
///
/// assert_eq!(to_all(&OrderApproved { order: 7 }, &["billing", "shipping"])?.len(), 2);
/// # Ok::<(), postroom::Error>(())
/// ```
pub trait Signal: Payload {}

/// Something another service is told to do: derive it with `#[derive(Command)]`.
///
/// ```
/// use postroom::{Command, Outbox, Payload, Result};
///
/// #[derive(serde::Serialize, serde::Deserialize, Command)]
/// #[command("stock.reserve", reply = String)]
/// struct Reserve { order: u64 }
///
/// async fn ask<C: Command>(outbox: &Outbox, command: &C) -> Result<C::Reply> {
///     outbox.request(command.outgoing().to("inventory")).await?.answer().await
/// }
/// # async fn f(outbox: Outbox) -> Result<()> {
/// let shelf: String = ask(&outbox, &Reserve { order: 7 }).await?;
/// # Ok(()) }
/// ```
pub trait Command: Replies {}

/// A call of a function marked with `push_call`.
///
/// ```
/// use postroom::{Ctx, HandlerError, Payload, push_call};
/// use postroom::message::{Kind, PushCall};
/// use postroom::store::Memory;
///
/// #[push_call("mail.send")]
/// async fn send_mail(_: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
///     println!("to {to}");
///     Ok(())
/// }
///
/// fn kind_of<C: PushCall>(_: &C) -> Kind { C::KIND }
///
/// assert_eq!(kind_of(&SendMail { to: "ann".into() }), Kind::PushCall);
/// ```
pub trait PushCall: Replies {}

/// A payload whose answer can be waited for.
///
/// ```
/// use postroom::{Command, Outbox, Payload, Result};
/// use postroom::message::Replies;
/// use postroom::queue::Pending;
///
/// #[derive(serde::Serialize, serde::Deserialize, Command)]
/// #[command("stock.reserve", reply = String)]
/// struct Reserve { order: u64 }
///
/// // Commands and push calls alike: whatever is answered can be asked.
/// async fn ask<C: Replies>(outbox: &Outbox, of: &str, question: &C) -> Result<Pending<C::Reply>> {
///     outbox.request(question.outgoing().to(of)).await
/// }
/// # async fn f(outbox: Outbox) -> Result<()> {
/// let shelf: String = ask(&outbox, "inventory", &Reserve { order: 7 }).await?.answer().await?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no answer",
    label = "a command or a push call is needed here",
    note = "derive `postroom::Command` with `reply = …` for it, or send it without waiting for an answer"
)]
pub trait Replies: Payload {}

impl Message {
    /// The payload as `P`, also when an older version of it wrote the message.
    ///
    /// An error names the field that does not fit, and never quotes the payload.
    pub fn read<P: Payload>(&self) -> Result<P> {
        P::read(version(&self.headers)?, &self.payload)
    }

    /// Whether a newer version of `P` wrote it.
    pub(crate) fn is_newer_than<P: Payload>(&self) -> bool {
        version(&self.headers).is_ok_and(|version| version > P::VERSION)
    }
}

/// Which version of its type wrote a payload.
fn version(headers: &Headers) -> Result<u32> {
    let Some(text) = headers.get(VERSION_HEADER) else { return Ok(1) };
    text.parse()
        .ok()
        .filter(|version| *version > 0)
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("the header {VERSION_HEADER} is not a number from 1")))
}
