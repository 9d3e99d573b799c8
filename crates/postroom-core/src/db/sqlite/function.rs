//! Functions that can be used as blocking handlers.

use crate::db::sqlite::BlockingCtx;
use crate::work::handler::{HandlerResult, Needed, State};

/// A `fn(&mut BlockingCtx<'_>, P) -> Result<R, HandlerError>`, or a function that takes up to four [`State`]s after the
/// payload.
///
/// ```
/// use postroom::handler::State;
/// use postroom::{Event, HandlerResult, Handlers};
/// use postroom::sqlite::{BlockingCtx, BlockingFn, Sqlite};
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced { order: i64 }
///
/// struct Shelves(i64);
///
/// fn handled_by<A: 'static>(placed: impl BlockingFn<OrderPlaced, (), A>) -> Handlers<Sqlite> {
///     Handlers::new().on_blocking(placed)
/// }
///
/// fn placed(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced, shelves: State<Shelves>) -> HandlerResult<()> {
///     ctx.tx().execute("INSERT INTO reserved (shelf) VALUES (?1)", [placed.order % shelves.0])?;
///     Ok(())
/// }
///
/// let handlers = handled_by(placed).state(Shelves(10));
/// ```
#[diagnostic::on_unimplemented(
    message = "this is not a blocking handler of `{P}` that answers `{R}`",
    note = "a blocking handler is a `fn(ctx: &mut BlockingCtx<'_>, payload: P) -> Result<R, HandlerError>`",
    note = "after the payload it may take up to four `State<T>`"
)]
pub trait BlockingFn<P, R, A = ()>: Send + Sync + 'static {
    /// Calls the function.
    fn call(&self, ctx: &mut BlockingCtx<'_>, payload: P) -> HandlerResult<R>;

    /// The states that the function takes.
    #[doc(hidden)]
    fn needed(&self) -> Vec<Needed> {
        Vec::new()
    }
}

impl<P, R, F> BlockingFn<P, R> for F
where
    F: Fn(&mut BlockingCtx<'_>, P) -> HandlerResult<R> + Send + Sync + 'static,
{
    fn call(&self, ctx: &mut BlockingCtx<'_>, payload: P) -> HandlerResult<R> {
        self(ctx, payload)
    }
}

macro_rules! with_states {
    ($($state:ident $value:ident),+) => {
        impl<P, R, F, $($state),+> BlockingFn<P, R, ($($state,)+)> for F
        where
            F: Fn(&mut BlockingCtx<'_>, P, $(State<$state>),+) -> HandlerResult<R> + Send + Sync + 'static,
            $($state: Send + Sync + 'static,)+
        {
            fn call(&self, ctx: &mut BlockingCtx<'_>, payload: P) -> HandlerResult<R> {
                $(let $value = ctx.state::<$state>()?;)+
                self(ctx, payload, $($value),+)
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
