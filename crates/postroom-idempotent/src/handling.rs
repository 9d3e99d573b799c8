//! A common form for handlers, whatever they take and answer.

use std::marker::PhantomData;
use std::sync::Arc;

use postroom_core::message::{Message, Payload};
use postroom_core::store::BoxFuture;
use postroom_core::work::handler::{Backend, Ctx, Entry, HandlerFn, HandlerResult, decode};

pub(super) trait Handling<B: Backend, R>: Send + Sync {
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<R>>;
}

/// A handler that takes a payload.
pub(super) struct Typed<F, P, A>(F, PhantomData<fn(P) -> A>);

impl<F, P, A> Typed<F, P, A> {
    pub(super) fn new(handler: F) -> Self {
        Self(handler, PhantomData)
    }
}

impl<B, P, R, A, F> Handling<B, R> for Typed<F, P, A>
where
    B: Backend,
    P: Payload,
    F: for<'c> HandlerFn<'c, B, P, R, A>,
{
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<R>> {
        Box::pin(async move {
            let payload = decode::<P>(&ctx.message)?;
            self.0.call(ctx, payload).await
        })
    }
}

/// A handler that takes whole messages.
pub(super) struct Whole<F, A>(F, PhantomData<fn(A)>);

impl<F, A> Whole<F, A> {
    pub(super) fn new(handler: F) -> Self {
        Self(handler, PhantomData)
    }
}

impl<B, R, A, F> Handling<B, R> for Whole<F, A>
where
    B: Backend,
    F: for<'c> HandlerFn<'c, B, Arc<Message>, R, A>,
{
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<R>> {
        let message = ctx.message.clone();
        Box::pin(self.0.call(ctx, message))
    }
}

/// A handler of a set.
impl<B: Backend> Handling<B, Option<String>> for Entry<B> {
    fn run<'c>(&'c self, ctx: &'c mut Ctx<B>) -> BoxFuture<'c, HandlerResult<Option<String>>> {
        match self {
            Self::Async(handler) => handler.run(ctx),
            Self::Blocking(handler) => Box::pin(ctx.call_blocking(handler.clone())),
        }
    }
}
