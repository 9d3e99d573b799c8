//! A handler's context for services and HTTP handlers, which cannot borrow one.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard};

use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::work::handler::{Backend, Ctx};

/// The context of a message or request in progress: its transaction, and the outbox bound to it. It is cheap to
/// clone, for services that take their input by value.
///
/// It ends when the service has answered. If a task that the service left behind still holds it then, nothing of the
/// transaction is stored, and the answer is an error.
///
/// ```
/// # use postroom::NewMessage;
/// # use postroom::idempotent::SharedCtx;
/// # use postroom::store::Memory;
/// # async fn handle(shared: SharedCtx<Memory>) -> postroom::Result<()> {
/// let mut ctx = shared.lock().await?;
/// ctx.enqueue(NewMessage::new("order.approved", "{}")).await?;
/// # Ok(()) }
/// ```
pub struct SharedCtx<B: Backend>(Arc<Shared<B>>);

struct Shared<B: Backend> {
    ctx: Mutex<Option<Ctx<B>>>,
    is_over: AtomicBool,
}

impl<B: Backend> SharedCtx<B> {
    pub(super) fn new(ctx: Ctx<B>) -> Self {
        Self(Arc::new(Shared { ctx: Mutex::new(Some(ctx)), is_over: AtomicBool::new(false) }))
    }

    /// Locks the context for one user at a time. It fails once the service has answered.
    pub async fn lock(&self) -> Result<CtxGuard<'_, B>> {
        let held = CtxGuard { ctx: self.0.ctx.lock().await, shared: &self.0 };
        match held.ctx.is_some() && !self.0.is_over() {
            true => Ok(held),
            false => Err(Error::new(ErrorKind::Closed, "the service has answered, so its transaction is over")),
        }
    }

    /// Takes the context back from the service, for good.
    pub(super) fn take(&self) -> Result<Ctx<B>> {
        self.0.is_over.store(true, Ordering::SeqCst);
        let taken = self.0.ctx.try_lock().ok().and_then(|mut ctx| ctx.take());
        taken.ok_or_else(|| {
            Error::new(ErrorKind::Callback, "a task that the service left behind holds the transaction; not committed")
        })
    }

    /// Ends the context together with its lender, even if the lender is dropped early or panics. A task that the
    /// service left behind must not keep the transaction open.
    pub(super) fn over_when_dropped(&self) -> Over<B> {
        Over(self.clone())
    }
}

impl<B: Backend> Shared<B> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Ends a [`SharedCtx`] when it is dropped.
pub(super) struct Over<B: Backend>(SharedCtx<B>);

impl<B: Backend> Drop for Over<B> {
    fn drop(&mut self) {
        drop(self.0.take());
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

/// A locked [`Ctx`] from a [`SharedCtx`], until it is dropped.
///
/// ```
/// use postroom::NewMessage;
/// use postroom::idempotent::CtxGuard;
/// use postroom::store::Memory;
///
/// async fn notify(mut ctx: CtxGuard<'_, Memory>) -> postroom::Result<()> {
///     ctx.enqueue(NewMessage::new("order.approved", "{}")).await?;
///     Ok(())
/// }
/// ```
pub struct CtxGuard<'a, B: Backend> {
    ctx: MutexGuard<'a, Option<Ctx<B>>>,
    shared: &'a Shared<B>,
}

/// The context cannot be taken away while it is locked.
const LOCKED: &str = "a locked context is there";

impl<B: Backend> Deref for CtxGuard<'_, B> {
    type Target = Ctx<B>;

    fn deref(&self) -> &Ctx<B> {
        self.ctx.as_ref().expect(LOCKED)
    }
}

impl<B: Backend> DerefMut for CtxGuard<'_, B> {
    fn deref_mut(&mut self) -> &mut Ctx<B> {
        self.ctx.as_mut().expect(LOCKED)
    }
}

impl<B: Backend> Drop for CtxGuard<'_, B> {
    fn drop(&mut self) {
        if self.shared.is_over() {
            *self.ctx = None;
        }
    }
}

impl<B: Backend> fmt::Debug for CtxGuard<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
