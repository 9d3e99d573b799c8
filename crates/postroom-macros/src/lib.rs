//! The macros of Postroom. Use them through the `postroom` crate, which says what each of them is for.

mod call;
mod names;
mod payload;
mod service;

use proc_macro::TokenStream;
use syn::parse_macro_input;

use crate::payload::Kind;

/// Something that happened in this service and is handled in it.
///
/// `#[event("topic")]`, and optionally `version = 2, upcast_from = Older`.
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

/// Something that happened and that another service wants to know.
///
/// `#[signal("topic")]`, and optionally `version = 2, upcast_from = Older`.
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

/// Something another service is told to do, and answers.
///
/// `#[command("topic", reply = Type)]`, and optionally `version = 2, upcast_from = Older`.
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

/// Makes a message of a function call: the arguments travel, the function is the handler.
///
/// `#[push_call("topic")]` on an async function makes a type of its arguments, called after it: `SendMail` for
/// `send_mail`, or what `name = …` says. Register it with `Handlers::call`, or with `call SendMail;` in `service!`.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, Memory, Outbox, Payload, push_call};
///
/// /// Sends a letter.
/// #[push_call("mail.send")]
/// async fn send_mail(_ctx: &mut Ctx<Memory>, to: String, subject: String) -> Result<(), HandlerError> {
///     println!("{subject}, to {to}");
///     Ok(())
/// }
///
/// # async fn f(outbox: Outbox) -> postroom::Result<()> {
/// SendMail { to: "ann".into(), subject: "Hello".into() }.outgoing().enqueue(&outbox).await?;
/// let handlers = Handlers::<Memory>::new().call::<SendMail>();
/// # Ok(()) }
/// ```
///
/// For methods it stands on the `impl` block and on each of them; register the object with `Handlers::calls`.
///
/// ```
/// use std::sync::Arc;
/// use postroom::{Ctx, HandlerError, Handlers, Memory, push_call};
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
/// use postroom::{Command, Ctx, HandlerError, Memory, service};
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
/// # async fn f(store: postroom::MemoryStore) -> postroom::Result<()> {
/// let orders = Orders::start(store).await?;
/// let reserved = orders.inventory().request(&Reserve { order: 7 }).await?.answer().await?;
/// println!("it is on {}", reserved.shelf);
/// orders.stop().await
/// # }
/// ```
///
/// | clause | meaning |
/// |---|---|
/// | `struct Name for "name" on Backend;` | comes first: the type, what other services call it, the database |
/// | `listen "http://127.0.0.1:7002";` | where it receives; `env("VARIABLE", "otherwise")` as well |
/// | `source "orders" { secret: … }` | whose messages it takes |
/// | `handle Payload => function;` | the handler of a message; `=> blocking function` on SQLite's writer thread |
/// | `call SendMail;` | a function marked with `push_call` |
/// | `destination name { url: …, secret: …, sends: […] }` | where it sends what; `name: "other-name"` as well |
///
/// A secret is `env("VARIABLE")`, `file("/path")` or `keys(expression)`; `env("VARIABLE") as "2026-11"` names its key.
#[proc_macro]
pub fn service(input: TokenStream) -> TokenStream {
    let declared = parse_macro_input!(input as service::Declared);
    written(service::expand(&declared))
}

/// What was written, or the errors in its place.
fn written(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.to_compile_error()).into()
}
