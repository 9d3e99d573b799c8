//! Functions that are handlers.

use std::future::{Future, Ready, ready};

use futures_util::future::Either;

use crate::work::handler::state::Needed;
use crate::work::handler::{Backend, Ctx, HandlerResult, State};

/// An `async fn(&mut Ctx<B>, M) -> Result<R, HandlerError>`, or one that takes up to four [`State`]s after the message.
///
/// An async closure is one too, if what it captures can be cloned: each message gets its own clone.
///
/// ```
/// use postroom::{Ctx, Event, HandlerResult, Handlers};
/// use postroom::handler::HandlerFn;
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// fn handled_by(placed: impl for<'c> HandlerFn<'c, Memory, OrderPlaced, ()> + 'static) -> Handlers<Memory> {
///     Handlers::new().on(placed)
/// }
///
/// async fn placed(_: &mut Ctx<Memory>, _: OrderPlaced) -> HandlerResult<()> { Ok(()) }
///
/// let handlers = handled_by(placed);
///
/// let (told, orders) = std::sync::mpsc::channel();
/// let handlers = handled_by(async move |ctx: &mut Ctx<Memory>, placed: OrderPlaced| {
///     told.send((placed.order, ctx.attempt()))?;
///     HandlerResult::Ok(())
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "this is not a handler of `{M}` on `{B}` that answers `{R}`",
    note = "a handler is an `async fn(ctx: &mut Ctx<B>, payload: P) -> Result<R, HandlerError>` on the backend B",
    note = "after the payload it may take up to four `State<T>`"
)]
pub trait HandlerFn<'c, B: Backend, M, R, A = ()>: Send + Sync {
    /// Calls it.
    fn call(&self, ctx: &'c mut Ctx<B>, message: M) -> impl Future<Output = HandlerResult<R>> + Send + 'c;

    /// Returns the states that it takes.
    #[doc(hidden)]
    fn needed(&self) -> Vec<Needed> {
        Vec::new()
    }
}

impl<'c, B, M, R, F, Fut> HandlerFn<'c, B, M, R> for F
where
    B: Backend,
    F: FnOnce(&'c mut Ctx<B>, M) -> Fut + Clone + Send + Sync,
    Fut: Future<Output = HandlerResult<R>> + Send + 'c,
{
    fn call(&self, ctx: &'c mut Ctx<B>, message: M) -> impl Future<Output = HandlerResult<R>> + Send + 'c {
        self.clone()(ctx, message)
    }
}

macro_rules! with_states {
    ($($state:ident $value:ident),+) => {
        impl<'c, B, M, R, F, Fut, $($state),+> HandlerFn<'c, B, M, R, ($($state,)+)> for F
        where
            B: Backend,
            R: Send + 'c,
            F: FnOnce(&'c mut Ctx<B>, M, $(State<$state>),+) -> Fut + Clone + Send + Sync,
            Fut: Future<Output = HandlerResult<R>> + Send + 'c,
            $($state: Send + Sync + 'static,)+
        {
            fn call(&self, ctx: &'c mut Ctx<B>, message: M) -> impl Future<Output = HandlerResult<R>> + Send + 'c {
                $(
                    let $value = match ctx.state::<$state>() {
                        Ok(value) => value,
                        Err(missing) => return Either::Left(failed(missing)),
                    };
                )+
                Either::Right(self.clone()(ctx, message, $($value),+))
            }

            fn needed(&self) -> Vec<Needed> {
                vec![$(Needed::of::<$state>()),+]
            }
        }
    };
}

with_states!(S1 first);
with_states!(S1 first, S2 second);
with_states!(S1 first, S2 second, S3 third);
with_states!(S1 first, S2 second, S3 third, S4 fourth);

fn failed<R>(missing: crate::support::error::Error) -> Ready<HandlerResult<R>> {
    ready(Err(missing.into()))
}
