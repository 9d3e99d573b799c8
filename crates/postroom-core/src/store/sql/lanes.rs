//! Lanes on databases where several transactions write at once. Whoever enqueues or settles a message of a lane leaves
//! a note, in the same transaction. A look takes notes, and puts the first messages of their lanes into the line.
//!
//! Nobody pays for this who uses no lanes: a claim is preceded by a look only if there may be notes. This process knows
//! of messages that it enqueued or claimed itself; a claim that finds nothing tells of others.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::rows::{int, moment, number};
use super::{Session, SqlVerbs};
use crate::queue::{Claimed, Queue};
use crate::sql::Row;
use crate::sql::plans::{Claim, LaneLook};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// How many notes a look takes.
const NOTES_MAX: i64 = 500;
/// At most this many looks precede one claim.
const LOOKS_MAX: usize = 8;
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

    /// Notices a message that is enqueued in a lane.
    pub(super) fn expect_note_of(&self, queue: Queue, lane: Option<&String>) {
        if lane.is_some() {
            self.expected.notes(queue);
        }
    }

    /// Notices claimed messages that have a lane: whoever settles them leaves a note.
    pub(super) fn expect_notes_of(&self, queue: Queue, claimed: &[Claimed]) {
        let has_lane = |one: &Claimed| one.message.as_ref().is_ok_and(|message| message.lane.is_some());
        if claimed.iter().any(has_lane) {
            self.expected.notes(queue);
        }
    }

    /// Gives the first messages of lanes their turn, if there may be some.
    pub(super) async fn look_at_lanes(
        &self,
        session: &mut impl Session,
        queue: Queue,
        now: Timestamp,
        inside: Inside,
    ) -> Result<()> {
        let look = match &self.statements.of(queue).lanes {
            Some(LaneLook::Anywhere(look)) => look,
            Some(LaneLook::Alone(look)) if inside == Inside::Nothing => look,
            _ => return Ok(()),
        };
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
            if !is_more {
                break;
            }
        }
        Ok(())
    }
}
