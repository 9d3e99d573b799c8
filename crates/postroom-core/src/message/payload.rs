//! Typed messages: how a type describes the messages it travels in.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Headers, Kind, Message, Outgoing, json};
use crate::support::error::{Error, ErrorKind, Result};

/// The header with the version of the type that wrote a payload. Without it, the version is 1.
pub(crate) const VERSION_HEADER: &str = "payload-version";

/// A type that travels as the payload of a message, as JSON, under one topic.
///
/// Derive `Event`, `Signal` or `Command` instead of implementing it by hand.
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
    /// The topic, which routes the message to its handler.
    const TOPIC: &'static str;
    /// The kind of the message.
    const KIND: Kind = Kind::Event;
    /// The version of the type, starting at 1. It travels with the message.
    const VERSION: u32 = 1;
    /// Whether a message with a destination is refused. This is so for types that derive [`Event`], which stay in this
    /// service.
    const STAYS_HERE: bool = false;
    /// What its handler answers; `()` means no answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// Decodes a payload that was written by the given version of the type.
    fn read(version: u32, json: &str) -> Result<Self> {
        if version == Self::VERSION {
            return json::read(format_args!("the payload for {}", Self::TOPIC), json);
        }
        if version < Self::VERSION { Self::upcast(version, json) } else { Err(unknown_version::<Self>(version)) }
    }

    /// Decodes a payload that was written by an older version of the type. By default, older versions cannot be read.
    ///
    /// The derives generate this from `upcast_from`:
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

    /// Returns the lane of a message with this payload, or `None` if it has none. [`Outgoing::lane`] sets another one.
    ///
    /// The derives generate this from `lane`. Names in braces stand for fields:
    ///
    /// ```
    /// use postroom::{Event, Payload};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Event)]
    /// #[event("order.paid", lane = "order-{order}")]
    /// struct OrderPaid { order: u64 }
    ///
    /// assert_eq!(OrderPaid { order: 7 }.lane().as_deref(), Some("order-7"));
    /// ```
    fn lane(&self) -> Option<String> {
        None
    }

    /// Builds a message with this payload, for a handler in this service unless you set a destination.
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

/// Something that happened in this service and is handled here. Derive it with `#[derive(Event)]`. An event with a
/// destination is refused; use a [`Signal`] for what other services want to know.
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

/// Something that happened and that another service wants to know. Derive it with `#[derive(Signal)]`.
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

/// Something that another service is asked to do. Derive it with `#[derive(Command)]`.
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

/// A payload that has an answer to wait for.
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
/// // Commands and push calls both have answers.
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
    /// Decodes the payload as `P`, also if an older version of `P` wrote it.
    ///
    /// An error names the field that does not match, and never quotes the payload.
    pub fn read<P: Payload>(&self) -> Result<P> {
        P::read(version(&self.headers)?, &self.payload)
    }

    /// Returns whether a newer version of `P` wrote it.
    pub(crate) fn is_newer_than<P: Payload>(&self) -> bool {
        version(&self.headers).is_ok_and(|version| version > P::VERSION)
    }
}

/// Returns the version of the type that wrote a payload.
fn version(headers: &Headers) -> Result<u32> {
    let Some(text) = headers.get(VERSION_HEADER) else { return Ok(1) };
    text.parse().ok().filter(|version| *version > 0).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("the header {VERSION_HEADER} is not a number of at least 1"))
    })
}
