//! Lanes on databases where several transactions write at once. Whoever enqueues or settles a message of a lane leaves
//! a note, in the same transaction. A look takes notes, and puts the first messages of their lanes into the line.
//!
//! Nobody pays for this who uses no lanes: a claim is preceded by a look only if there may be notes. This process knows
//! of messages that it enqueued or claimed itself; a claim that finds nothing tells of others.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::rows::{int, moment, number};
use super::{Session, SqlVerbs};
use crate::message::NewMessage;
use crate::queue::{Claimed, Queue};
use crate::sql::Row;
use crate::sql::plans::{Claim, LaneLook};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// How many notes a look takes.
const NOTES_MAX: i64 = 500;
/// At most this many looks precede one claim.
const LOOKS_MAX: usize = 8;
/// Lanes share that many locks, and one more.
const LOCK_MASK: u32 = 1023;
/// After this many looks in a row that found nothing, none precedes a claim until something tells of a lane.
const IN_VAIN_MAX: u32 = 32;

/// Whether claims are preceded by a look, for each queue.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// How many more claims are.
    looks: [AtomicU32; 2],
    /// Whether a claim that found nothing saw notes.
    seen: [AtomicBool; 2],
}

impl Expected {
    /// Expects notes: a message of a lane was enqueued or claimed.
    pub(super) fn notes(&self, queue: Queue) {
        self.looks[queue.index()].store(IN_VAIN_MAX, Ordering::Relaxed);
    }

    /// Expects notes as long as it takes to find out: something is there that was not seen before.
    pub(super) fn perhaps(&self, queue: Queue) {
        self.looks[queue.index()].fetch_max(1, Ordering::Relaxed);
    }

    /// There are notes.
    pub(super) fn seen(&self, queue: Queue) {
        self.notes(queue);
        self.seen[queue.index()].store(true, Ordering::Relaxed);
    }

    /// Returns whether notes were seen since this was asked.
    pub(super) fn were_seen(&self, queue: Queue) -> bool {
        self.seen[queue.index()].swap(false, Ordering::Relaxed)
    }

    fn some(&self, queue: Queue) -> bool {
        self.looks[queue.index()].load(Ordering::Relaxed) > 0
    }

    fn found_nothing(&self, queue: Queue) {
        let less = |left: u32| left.checked_sub(1);
        let _ = self.looks[queue.index()].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// Sorts messages in the order in which their inserts take the locks of their lanes, so that two transactions do not
/// wait for each other. Those of one lane stay in order. Returns where each of them stood.
pub(crate) fn by_lock(messages: Vec<NewMessage>) -> (Vec<NewMessage>, Vec<usize>) {
    let mut placed: Vec<_> = messages.into_iter().enumerate().collect();
    placed.sort_by_key(|(_, message)| message.lane.as_ref().map(|lane| crc32(lane.as_bytes()) & LOCK_MASK));
    let (places, messages) = placed.into_iter().unzip();
    (messages, places)
}

/// The checksum by which MySQL's triggers choose the lock of a lane.
fn crc32(bytes: &[u8]) -> u32 {
    let next = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), next))
}

/// Where a look runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Transaction,
    Nothing,
}

impl SqlVerbs {
    /// Returns whether messages of one lane are handled in order.
    pub(crate) fn keeps_lanes(&self) -> bool {
        let outbox = &self.statements.outbox;
        outbox.lanes.is_some() || matches!(outbox.claim, Claim::Front { .. })
    }

    /// Returns whether whoever inserts a message of a lane waits for open transactions that did, until they end.
    pub(crate) fn inserts_wait_for_lanes(&self) -> bool {
        matches!(self.statements.outbox.lanes, Some(LaneLook::Alone(_)))
    }

    /// Notices that a message left its lane: whoever settled it left a note.
    pub(crate) fn expect_notes(&self, queue: Queue) {
        self.expected.notes(queue);
    }

    /// Notices claimed messages that have a lane: whoever settles them leaves a note.
    pub(super) fn expect_notes_of(&self, queue: Queue, claimed: &[Claimed]) {
        let has_lane = |one: &Claimed| one.message.as_ref().is_ok_and(|message| message.lane.is_some());
        if claimed.iter().any(has_lane) {
            self.expected.notes(queue);
        }
    }

    /// Gives the first messages of lanes their turn, if there may be some. It stops when there are enough of them for
    /// the claim that follows.
    pub(super) async fn look_at_lanes(
        &self,
        session: &mut impl Session,
        queue: Queue,
        now: Timestamp,
        (inside, enough): (Inside, usize),
    ) -> Result<()> {
        let look = match &self.statements.of(queue).lanes {
            Some(LaneLook::Anywhere(look)) => look,
            Some(LaneLook::Alone(look)) if inside == Inside::Nothing => look,
            _ => return Ok(()),
        };
        let mut given = 0;
        for _ in 0..LOOKS_MAX {
            if !self.expected.some(queue) {
                break;
            }
            let values = vec![int(now.as_micros()), int(NOTES_MAX)];
            let read = |row: &dyn Row| Ok((number(row, 0)?, number(row, 1)?, number(row, 3)? != 0, moment(row, 4)?));
            let looked = session.query(&look.with(values), read).await?.pop();
            let (notes, promoted, is_more, earliest) = looked.unwrap_or_default();
            if promoted > 0 {
                // They keep their times, and claims may have passed these.
                self.scan_start(queue).lower(earliest);
                self.topic_scan_start.lower(queue, earliest);
            }
            match notes {
                0 => self.expected.found_nothing(queue),
                _ => self.expected.notes(queue),
            }
            given += usize::try_from(promoted).unwrap_or(0);
            if !is_more || given >= enough {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sorted_by_the_locks_of_their_lanes_and_each_lane_stays_in_order() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "as MySQL counts it");
        let lanes = ["x", "", "y", "x", "z", "", "y"];
        let messages = lanes.iter().enumerate().map(|(at, lane)| NewMessage::new(format!("t{at}"), "").lane(*lane));
        let (sorted, places) = by_lock(messages.collect());
        assert_eq!(
            sorted.iter().map(|message| message.lane.is_some()).collect::<Vec<_>>(),
            [false, false, true, true, true, true, true]
        );
        for (message, place) in sorted.iter().zip(&places) {
            assert_eq!(message.topic, format!("t{place}"));
        }
        let of = |lane: &str| {
            sorted
                .iter()
                .filter(|one| one.lane.as_deref() == Some(lane))
                .map(|one| one.topic.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (of("x"), of("y"), of("z")),
            (vec!["t0".into(), "t3".into()], vec!["t2".into(), "t6".into()], vec!["t4".into()])
        );
    }
}
