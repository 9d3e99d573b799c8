//! Where a child stops on request, and waits to be killed, paused or let go.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::wire::{Order, Stop, Word, say};

/// A child's stops. One can be armed at a time; it is disarmed by reaching it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    armed: Option<(Stop, Option<String>)>,
    /// How many more of those who wait may go.
    passes: u32,
    /// The parent is gone or done: nobody waits any more.
    is_over: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an order of the parent.
    pub(crate) fn take(&self, order: Order) {
        let mut inner = self.lock();
        match order {
            Order::Arm(stop, message) => inner.armed = Some((stop, message)),
            Order::Disarm => inner.armed = None,
            Order::Go => inner.passes += 1,
            Order::Grant(_) => {}
        }
        drop(inner);
        self.opened.notify_all();
    }

    /// Lets everybody go, for good.
    pub(crate) fn open(&self) {
        self.lock().is_over = true;
        self.opened.notify_all();
    }

    /// Whether to stop here; true once for each time it was armed.
    pub(crate) fn is_hit(&self, stop: Stop, message: &str) -> bool {
        let mut inner = self.lock();
        let is_hit = match &inner.armed {
            Some((armed, only)) => *armed == stop && only.as_deref().is_none_or(|only| only == message),
            None => false,
        };
        if is_hit {
            // A word of release that came too late for somebody else is not for this one.
            (inner.armed, inner.passes) = (None, 0);
        }
        is_hit
    }

    /// Stops here if requested: reports it, and blocks the thread until the parent lets it go.
    pub(crate) fn pass(&self, stop: Stop, message: &str) {
        if self.is_hit(stop, message) {
            // Other tasks that wait for this thread of the runtime move to another one.
            tokio::task::block_in_place(|| {
                say(&Word::At(stop, message.to_owned()));
                let inner = self.lock();
                let waited = self.opened.wait_while(inner, |inner| inner.passes == 0 && !inner.is_over);
                let mut inner = waited.unwrap_or_else(PoisonError::into_inner);
                inner.passes = inner.passes.saturating_sub(1);
            });
        }
    }
}
