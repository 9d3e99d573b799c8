//! Limits how many bytes of unverified requests are held in memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in blocks of this size.
const BLOCK: usize = 1024;
/// A request with a signed head is almost certainly genuine, so these requests have this many times as much room.
const SIGNED_TIMES: usize = 4;

/// The room for bodies that are being read: one part for anybody, and one for requests with a valid signature.
#[derive(Debug)]
pub(super) struct Bodies {
    anybody: Arc<Semaphore>,
    signed: Arc<Semaphore>,
}

/// Says whose body it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// The whole body is needed to verify the sender.
    Anybody,
    /// A source signed the head; the body still has to be compared with it.
    Signed,
}

impl Bodies {
    pub(super) fn new(bytes: usize) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new((bytes / BLOCK + 1).min(Semaphore::MAX_PERMITS)));
        Self { anybody: room(bytes), signed: room(bytes.saturating_mul(SIGNED_TIMES)) }
    }

    pub(super) fn begin(&self, whose: Whose) -> Room {
        let of = match whose {
            Whose::Anybody => &self.anybody,
            Whose::Signed => &self.signed,
        };
        Room { of: of.clone(), taken: None, bytes: 0 }
    }
}

/// The room that one body takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    of: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Room {
    /// Takes this many more bytes. It returns false when there is no room for them.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes);
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(BLOCK).saturating_sub(taken);
        let more = u32::try_from(missing).ok().and_then(|more| self.of.clone().try_acquire_many_owned(more).ok());
        match (more, &mut self.taken) {
            (None, _) => return false,
            (Some(more), Some(taken)) => taken.merge(more),
            (more, taken) => *taken = more,
        }
        self.bytes = bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let bodies = Bodies::new(10 * BLOCK);
        let (mut one, mut other) = (bodies.begin(Whose::Anybody), bodies.begin(Whose::Anybody));
        assert!((0..6).all(|_| one.take(BLOCK)) && other.take(4 * BLOCK));
        assert!(!other.take(8 * BLOCK), "there is no room");
        assert!(bodies.begin(Whose::Signed).take(30 * BLOCK), "signed requests have separate room");
        drop(one);
        assert!(other.take(0));
        drop(other);
        assert!(bodies.begin(Whose::Anybody).take(11 * BLOCK));
    }
}
