//! A handler's context for code that cannot be lent one: services and HTTP handlers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::handler::{Backend, Ctx};

/// The context of a message or request that is being handled: its transaction, and the outbox bound to it. Cheap to
/// clone, for a service that takes what it needs by value.
///
/// It is over when the service has answered. A task that the service left behind must not hold it then: nothing of the
/// transaction is stored, and the answer is an error.
///
/// ```
/// # use postroom::{Memory, NewMessage, SharedCtx};
/// # async fn handle(shared: SharedCtx<Memory>) -> postroom::Result<()> {
/// let mut ctx = shared.lock().await?;
/// ctx.enqueue(NewMessage::new("order.approved", "{}")).await?;
/// # Ok(()) }
/// ```
pub struct SharedCtx<B: Backend>(Arc<Mutex<Option<Ctx<B>>>>);

impl<B: Backend> SharedCtx<B> {
    pub(super) fn new(ctx: Ctx<B>) -> Self {
        Self(Arc::new(Mutex::new(Some(ctx))))
    }

    /// The context, for one user at a time; an error once the service has answered.
    pub async fn lock(&self) -> Result<CtxGuard<'_, B>> {
        let held = MutexGuard::try_map(self.0.lock().await, Option::as_mut);
        held.map(CtxGuard).map_err(|_| Error::new(ErrorKind::Closed, "the answer was given: its transaction is over"))
    }

    /// Takes it back from the service.
    pub(super) fn take(&self) -> Result<Ctx<B>> {
        let taken = self.0.try_lock().ok().and_then(|mut ctx| ctx.take());
        taken.ok_or_else(|| {
            Error::new(ErrorKind::Callback, "a task that the service left behind holds the transaction; not committed")
        })
    }
}

impl<B: Backend> Clone for SharedCtx<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> fmt::Debug for SharedCtx<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedCtx")
    }
}

/// A [`Ctx`] out of a [`SharedCtx`], until it is dropped.
///
/// ```
/// use postroom::{CtxGuard, Memory, NewMessage};
///
/// async fn notify(mut ctx: CtxGuard<'_, Memory>) -> postroom::Result<()> {
///     ctx.enqueue(NewMessage::new("order.approved", "{}")).await?;
///     Ok(())
/// }
/// ```
pub struct CtxGuard<'a, B: Backend>(MappedMutexGuard<'a, Ctx<B>>);

impl<B: Backend> Deref for CtxGuard<'_, B> {
    type Target = Ctx<B>;

    fn deref(&self) -> &Ctx<B> {
        &self.0
    }
}

impl<B: Backend> DerefMut for CtxGuard<'_, B> {
    fn deref_mut(&mut self) -> &mut Ctx<B> {
        &mut self.0
    }
}

impl<B: Backend> fmt::Debug for CtxGuard<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
