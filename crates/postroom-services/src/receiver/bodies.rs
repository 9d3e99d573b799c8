//! Limits how many bytes of unverified requests are held in memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in blocks of this size.
const BLOCK: usize = 1024;
/// A request with a signed head is almost certainly genuine, so these requests have this many times as much room.
const SIGNED_TIMES: usize = 4;
/// One address takes at most this part of the room for anybody, so that it leaves some for others.
const PART_OF_ADDRESS: usize = 4;

/// The room for bodies that are being read: one part for anybody, and one for requests with a valid signature.
#[derive(Debug)]
pub(super) struct Bodies {
    anybody: Arc<Semaphore>,
    signed: Arc<Semaphore>,
    /// The shares of the addresses that send at the moment.
    shares: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    share_bytes: usize,
}

/// Says whose body it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// The whole body is needed to verify the sender. It comes from this address, if that is known.
    Anybody(Option<IpAddr>),
    /// A source signed the head; the body still has to be compared with it.
    Signed,
}

impl Bodies {
    /// Creates room for this many bytes, and for at least one body of the largest size from each address.
    pub(super) fn new(bytes: usize, body_max: usize) -> Self {
        let bytes = bytes.max(body_max);
        Self {
            anybody: semaphore(bytes),
            signed: semaphore(bytes.saturating_mul(SIGNED_TIMES)),
            shares: Mutex::default(),
            share_bytes: (bytes / PART_OF_ADDRESS).max(body_max),
        }
    }

    pub(super) fn begin(&self, whose: Whose) -> Room {
        let of = match whose {
            Whose::Anybody(from) => {
                from.map(|from| self.share(from)).into_iter().chain([self.anybody.clone()]).collect()
            }
            Whose::Signed => vec![self.signed.clone()],
        };
        Room { parts: of.into_iter().map(|of| Part { of, taken: None }).collect(), bytes: 0 }
    }

    fn share(&self, from: IpAddr) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&from).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = semaphore(self.share_bytes);
        shares.insert(from, Arc::downgrade(&share));
        share
    }
}

fn semaphore(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((bytes / BLOCK + 1).min(Semaphore::MAX_PERMITS)))
}

/// The room that one body takes, until it is dropped: in the share of its address, and in the whole.
#[derive(Debug)]
pub(crate) struct Room {
    parts: Vec<Part>,
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    of: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes this many more bytes. It returns false when there is no room for them.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes);
        let has_room = self.parts.iter_mut().all(|part| part.grow_to(bytes.div_ceil(BLOCK)));
        if has_room {
            self.bytes = bytes;
        }
        has_room
    }
}

impl Part {
    fn grow_to(&mut self, blocks: usize) -> bool {
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(blocks.saturating_sub(taken)).ok();
        let more = missing.and_then(|more| self.of.clone().try_acquire_many_owned(more).ok());
        match (more, &mut self.taken) {
            (None, _) => return false,
            (Some(more), Some(taken)) => taken.merge(more),
            (more, taken) => *taken = more,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let bodies = Bodies::new(10 * BLOCK, BLOCK);
        let anybody = || bodies.begin(Whose::Anybody(None));
        let (mut one, mut other) = (anybody(), anybody());
        assert!((0..6).all(|_| one.take(BLOCK)) && other.take(4 * BLOCK));
        assert!(!other.take(8 * BLOCK), "there is no room");
        assert!(bodies.begin(Whose::Signed).take(30 * BLOCK), "signed requests have separate room");
        drop(one);
        assert!(other.take(0));
        drop(other);
        assert!(anybody().take(11 * BLOCK));
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let bodies = Bodies::new(16 * BLOCK, BLOCK);
        let from = |last: u8| bodies.begin(Whose::Anybody(Some(IpAddr::from([127, 0, 0, last]))));
        let (mut one, mut two) = (from(1), from(1));
        assert!(one.take(3 * BLOCK) && two.take(2 * BLOCK) && !from(1).take(1), "a quarter");
        assert!(from(2).take(5 * BLOCK));
        drop(one);
        assert!(from(1).take(3 * BLOCK) && !from(1).take(4 * BLOCK), "what it holds is still counted");
        drop(two);
        assert!(from(3).take(BLOCK));
        assert_eq!(bodies.shares.lock().unwrap().len(), 1, "an address is forgotten");
        // A body of the largest size has room, however little there is.
        let small = Bodies::new(BLOCK, 8 * BLOCK);
        assert!(small.begin(Whose::Anybody(Some(IpAddr::from([127, 0, 0, 1])))).take(8 * BLOCK));
    }
}
