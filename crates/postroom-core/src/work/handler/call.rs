//! Functions and methods marked with `push_call`: each is its own handler.

use std::collections::HashSet;
use std::sync::Arc;

use crate::message::Payload;
use crate::work::handler::{Backend, Ctx, Handle, HandlerResult, Handlers, Needed};

/// A call whose function is its handler. `push_call` generates this.
///
/// ```
/// use postroom::{Ctx, HandlerError, Handlers, push_call};
/// use postroom::store::Memory;
///
/// // `push_call` generates `SendMail`: the call as a message, with the function as its handler.
/// #[push_call("mail.send")]
/// async fn send_mail(_: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
///     println!("to {to}");
///     Ok(())
/// }
///
/// let handlers = Handlers::<Memory>::new().call::<SendMail>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a call that can be handled on `{B}`",
    label = "no function marked with `push_call` on this backend",
    note = "name the type that `#[push_call]` generated for the function: `SendMail` for `send_mail`"
)]
pub trait Callable<B: Backend>: Payload {
    /// Adds the function to the handlers.
    fn register(handlers: Handlers<B>) -> Handlers<B>;
}

/// An object with methods marked with `push_call`. The `push_call` on its `impl` block generates this.
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
///     async fn send(&self, _: &mut Ctx<Memory>, to: String) -> Result<(), HandlerError> {
///         println!("from {} to {to}", self.from);
///         Ok(())
///     }
/// }
///
/// let handlers = Handlers::<Memory>::new().calls(Arc::new(Mailer { from: "shop".into() }));
/// # let call = Letter { to: "ann".into() };
/// ```
pub trait Calls<B: Backend>: Send + Sync + Sized + 'static {
    /// Adds the methods to the handlers.
    fn register(self: Arc<Self>, handlers: Handlers<B>) -> Handlers<B>;
}

impl<B: Backend> Handlers<B> {
    /// Adds the function of a `push_call`.
    #[must_use]
    pub fn call<C: Callable<B>>(self) -> Self {
        C::register(self)
    }

    /// Adds the methods of an object that are marked with `push_call`.
    #[must_use]
    pub fn calls<C: Calls<B>>(self, object: Arc<C>) -> Self {
        let before: HashSet<String> = self.entries().map(|(topic, _)| topic.to_owned()).collect();
        let mut handlers = object.register(self);
        let topics = handlers.entries().map(|(topic, _)| topic).filter(|topic| !before.contains(*topic));
        let topics = topics.map(str::to_owned).collect();
        handlers.tuning.about(topics);
        handlers
    }
}

/// An object that several topics share.
impl<B: Backend, P: Payload, H: Handle<B, P>> Handle<B, P> for Arc<H> {
    async fn handle(&self, ctx: &mut Ctx<B>, payload: P) -> HandlerResult<P::Reply> {
        H::handle(self, ctx, payload).await
    }

    fn needed(&self) -> Vec<Needed> {
        H::needed(self)
    }
}
