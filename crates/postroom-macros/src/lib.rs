//! The macros of Postroom. Use them through the `postroom` crate, which explains each of them.

mod call;
mod lane;
mod names;
mod payload;
mod service;

use proc_macro::TokenStream;
use syn::parse_macro_input;

use crate::payload::Kind;

/// Derives an event: something that happened in this service and is handled in it.
///
/// The attribute is `#[event("topic")]`, optionally with `version = 2, upcast_from = Older`, and with
/// `lane = "order-{order}"`: messages of one lane are handled in order. Names in braces stand for fields.
///
/// ```
/// use postroom::Event;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
/// ```
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    written(payload::derive(&parse_macro_input!(input), Kind::Event))
}

/// Derives a signal: something that happened and that another service wants to know.
///
/// The attribute is `#[signal("topic")]`, optionally with `version = 2, upcast_from = Older` and
/// `lane = "order-{order}"`, as for an event.
///
/// ```
/// use postroom::Signal;
///
/// #[derive(serde::Serialize, serde::Deserialize, Signal)]
/// #[signal("order.approved")]
/// struct OrderApproved { order: u64, by: String }
/// ```
#[proc_macro_derive(Signal, attributes(signal))]
pub fn derive_signal(input: TokenStream) -> TokenStream {
    written(payload::derive(&parse_macro_input!(input), Kind::Signal))
}

/// Derives a command: something that another service should do and answer.
///
/// The attribute is `#[command("topic", reply = Type)]`, optionally with `version = 2, upcast_from = Older` and
/// `lane = "order-{order}"`, as for an event.
///
/// ```
/// use postroom::Command;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Command)]
/// #[command("stock.reserve", reply = Reserved)]
/// struct Reserve { order: u64 }
///
/// #[derive(Serialize, Deserialize)]
/// struct Reserved { shelf: String }
/// ```
#[proc_macro_derive(Command, attributes(command))]
pub fn derive_command(input: TokenStream) -> TokenStream {
    written(payload::derive(&parse_macro_input!(input), Kind::Command))
}

/// Turns a function call into a message: the arguments travel, and the function is the handler.
///
/// `#[push_call("topic")]` on an async function creates a type for its arguments, named after it: `SendMail` for
/// `send_mail`, or the name in `name = …`. With `lane = "mail-{to}"`, calls stand in a lane; names in braces are
/// arguments. Register it with `Handlers::call`, or with `call SendMail;` in `service!`.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Outbox, Payload, push_call};
/// use postroom::store::Memory;
///
/// /// Sends a letter.
/// #[push_call("mail.send")]
/// async fn send_mail(_ctx: &mut Ctx<Memory>, to: String, subject: String) -> Result<(), HandlerError> {
///     println!("{subject}, to {to}");
///     Ok(())
/// }
///
/// # async fn f(outbox: Outbox) -> postroom::Result<()> {
/// outbox.enqueue(SendMail { to: "ann".into(), subject: "Hello".into() }.outgoing()).await?;
/// let handlers = Handlers::<Memory>::new().call::<SendMail>();
/// # Ok(()) }
/// ```
///
/// An argument of the type `State<T>` does not travel: it is a value that the worker was given with `Handlers::state`.
///
/// ```
/// use postroom::{HandlerResult, Handlers, push_call};
/// use postroom::handler::State;
/// use postroom::store::Memory;
///
/// struct Mailer { from: String }
///
/// #[push_call("mail.send")]
/// async fn send_mail(to: String, mailer: State<Mailer>) -> HandlerResult<()> {
///     println!("from {} to {to}", mailer.from);
///     Ok(())
/// }
///
/// let handlers = Handlers::<Memory>::new().call::<SendMail>().state(Mailer { from: "shop".into() });
/// let call = SendMail { to: "ann".into() };
/// ```
///
/// For methods, put it on the `impl` block and on each of them; register the object with `Handlers::calls`.
///
/// ```
/// use std::sync::Arc;
/// use postroom::{Ctx, HandlerError, Handlers, push_call};
/// use postroom::store::Memory;
///
/// struct Mailer { from: String }
///
/// #[push_call]
/// impl Mailer {
///     #[push_call("mail.send", name = Letter)]
///     async fn send(&self, _ctx: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
///         println!("from {} to {to}", self.from);
///         Ok(())
///     }
/// }
///
/// let handlers = Handlers::<Memory>::new().calls(Arc::new(Mailer { from: "me".into() }));
/// let call = Letter { to: "ann".into() };
/// ```
#[proc_macro_attribute]
pub fn push_call(arguments: TokenStream, item: TokenStream) -> TokenStream {
    written(call::expand(arguments.into(), item.into()))
}

/// Declares a service: what it handles, whom it trusts, where it sends.
///
/// ```
/// use postroom::{Command, Ctx, HandlerError, service};
/// use postroom::store::Memory;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Command)]
/// #[command("stock.reserve", reply = Reserved)]
/// pub struct Reserve { order: u64 }
///
/// #[derive(Serialize, Deserialize)]
/// pub struct Reserved { shelf: String }
///
/// async fn reserve(_: &mut Ctx<Memory>, wanted: Reserve) -> Result<Reserved, HandlerError> {
///     Ok(Reserved { shelf: format!("shelf {}", wanted.order % 10) })
/// }
///
/// service! {
///     /// Reserves what is ordered.
///     pub struct Inventory for "inventory" on Memory;
///
///     source "orders" { secret: env("SHOP_SECRET") }
///     handle Reserve => reserve;
/// }
///
/// service! {
///     pub struct Orders for "orders" on Memory;
///
///     destination inventory {
///         url: env("INVENTORY_URL", "http://127.0.0.1:7002"),
///         secret: env("SHOP_SECRET"),
///         sends: [Reserve],
///     }
/// }
///
/// # async fn f(store: postroom::store::MemoryStore) -> postroom::Result<()> {
/// let orders = Orders::start(store).await?;
/// let reserved = orders.inventory().request(&Reserve { order: 7 }).await?.answer().await?;
/// println!("it is on {}", reserved.shelf);
/// orders.stop().await
/// # }
/// ```
///
/// | clause | meaning |
/// |---|---|
/// | `struct Name for "name" on Backend;` | comes first: the type, its name for other services, the database |
/// | `listen "http://127.0.0.1:7002";` | where it receives; also `env("VARIABLE", "otherwise")` |
/// | `source "orders" { secret: … }` | a service whose messages it accepts |
/// | `handle Payload => function;` | the handler of a message; `=> blocking function` runs on SQLite's writer thread |
/// | `call SendMail;` | a function marked with `push_call` |
/// | `handle Payload => function { retry: …, concurrency: … }` | how a worker retries it, and how many run at once |
/// | `destination name { url: …, secret: …, sends: […] }` | where it sends which messages; also `name: "other-name"` |
///
/// `retry` and `concurrency` are those of `Handlers`. Either can be left out, and both can follow `call SendMail` too.
/// They are about the messages that the workers of the service handle; a message that is handled as it arrives is
/// retried by its sender.
///
/// A secret is `env("VARIABLE")`, `file("/path")` or `keys(expression)`; `env("VARIABLE") as "2026-11"` names its key.
#[proc_macro]
pub fn service(input: TokenStream) -> TokenStream {
    let declared = parse_macro_input!(input as service::Declared);
    written(service::expand(&declared))
}

/// Returns the generated code, or the errors in its place.
fn written(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.to_compile_error()).into()
}
