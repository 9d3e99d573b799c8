//! The book of a storm: what is known of each message, and what must not be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postroom::clock::{ManualClock, Timestamp};
use postroom::operator::Record;

/// The machine's own time: what stands still stands still by any clock.
#[allow(clippy::disallowed_methods, reason = "the clock of the case jumps")]
fn now() -> Instant {
    Instant::now()
}

/// The transaction that wrote a message, as seen from outside: it committed between these two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) from: u64,
    /// The end of time if nobody knows whether it committed.
    pub(super) to: u64,
    /// Its place in the transaction.
    pub(super) at: usize,
}

impl Written {
    fn is_before(&self, other: &Self) -> bool {
        self.to < other.from || (self.from, self.to) == (other.from, other.to) && self.at < other.at
    }
}

#[derive(Debug)]
struct Entry {
    lane: String,
    written: Written,
    expires_at: Option<Timestamp>,
    /// How many attempts to end it may have succeeded.
    ending: u32,
    is_done: bool,
}

impl Entry {
    /// It is known to be there, and it cannot have ended.
    fn is_open(&self, now: Timestamp) -> bool {
        let may_have_ended = self.is_done || self.ending > 0 || self.expires_at.is_some_and(|at| at <= now);
        self.written.to < u64::MAX && !may_have_ended
    }
}

#[derive(Debug)]
struct Held {
    id: String,
    until: Timestamp,
}

#[derive(Default)]
struct Pages {
    entries: HashMap<String, Entry>,
    /// What was not seen to have ended yet, by lane.
    live: HashMap<String, Vec<String>>,
    held: HashMap<String, Vec<Held>>,
    problems: Vec<String>,
}

/// Everybody writes into it before and after what they do.
pub(super) struct Book {
    pages: Mutex<Pages>,
    moments: AtomicU64,
    closed: AtomicBool,
    /// When a message ended last.
    moved_at: Mutex<Instant>,
    clock: ManualClock,
    /// How many messages of a lane may be in progress at once.
    places: usize,
}

/// An attempt to end a message.
#[must_use]
pub(super) struct Ending<'b> {
    book: &'b Book,
    id: String,
}

impl Ending<'_> {
    /// It was answered: so many messages ended by it. An attempt without an answer may have succeeded.
    pub(super) fn settled(self, ended: u64) {
        let mut pages = self.book.pages();
        if ended == 0 {
            if let Some(entry) = pages.entries.get_mut(&self.id) {
                entry.ending -= 1;
            }
            return;
        }
        if let Some(entry) = pages.entries.get_mut(&self.id) {
            if entry.is_done {
                let problem = format!("{} ended twice", self.id);
                pages.problems.push(problem);
                return;
            }
            entry.is_done = true;
            *self.book.moved_at.lock().unwrap_or_else(PoisonError::into_inner) = now();
            let lane = entry.lane.clone();
            if let Some(live) = pages.live.get_mut(&lane) {
                live.retain(|id| *id != self.id);
            }
        }
    }
}

impl Book {
    pub(super) fn new(clock: ManualClock, places: usize) -> Self {
        let (moments, closed) = (AtomicU64::new(1), AtomicBool::new(false));
        Self { pages: Mutex::default(), moments, closed, moved_at: Mutex::new(now()), clock, places }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A moment after all that was noted before.
    pub(super) fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// Nothing more is enqueued.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// How long ago a message ended.
    pub(super) fn stands_still_for(&self) -> Duration {
        self.moved_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// How many messages are open.
    pub(super) fn open(&self) -> usize {
        let (pages, now) = (self.pages(), self.clock.now());
        let is_open = |id: &&String| pages.entries.get(*id).is_some_and(|entry| entry.is_open(now));
        pages.live.values().flatten().filter(is_open).count()
    }

    /// Notes a message before its transaction commits.
    pub(super) fn writes(&self, id: String, lane: String, written: Written, expires_at: Option<Timestamp>) {
        let mut pages = self.pages();
        pages.live.entry(lane.clone()).or_default().push(id.clone());
        pages.entries.insert(id, Entry { lane, written, expires_at, ending: 0, is_done: false });
    }

    /// Notes that a transaction committed.
    pub(super) fn wrote<'i>(&self, ids: impl IntoIterator<Item = &'i str>) {
        let (mut pages, to) = (self.pages(), self.moment());
        for id in ids {
            if let Some(entry) = pages.entries.get_mut(id) {
                entry.written.to = to;
            }
        }
    }

    /// Notes that the transaction of a message is about to commit.
    pub(super) fn commits<'i>(&self, ids: impl IntoIterator<Item = &'i str>) {
        let (mut pages, from) = (self.pages(), self.moment());
        for id in ids {
            if let Some(entry) = pages.entries.get_mut(id) {
                entry.written.from = from;
            }
        }
    }

    /// Notes that somebody claimed a message, and finds what must not be.
    pub(super) fn claimed(&self, id: &str, until: Timestamp) {
        let (mut pages, now) = (self.pages(), self.clock.now());
        let Some(entry) = pages.entries.get(id) else { return };
        let (lane, written) = (entry.lane.clone(), entry.written);
        if entry.is_done {
            let problem = format!("{id} was claimed after it had ended");
            pages.problems.push(problem);
        }
        // What came before it has ended, whatever was answered.
        let mut live = pages.live.remove(&lane).unwrap_or_default();
        let mut passed = Vec::new();
        live.retain(|other| match pages.entries.get(other) {
            Some(other) if !other.written.is_before(&written) => true,
            Some(entry) if entry.is_open(now) => {
                passed.push(other.clone());
                true
            }
            _ => false,
        });
        pages.live.insert(lane.clone(), live);
        if passed.len() >= self.places {
            let problem = format!("{id} of {lane} was claimed before {}, which has not ended", passed[0]);
            pages.problems.push(problem);
        }
        let held = pages.held.entry(lane.clone()).or_default();
        held.retain(|held| held.until > now && held.id != id);
        let problem = held.first().filter(|_| held.len() >= self.places);
        let problem = problem.map(|other| format!("{id} of {lane} was claimed while {} is in progress", other.id));
        held.push(Held { id: id.to_owned(), until });
        pages.problems.extend(problem);
    }

    /// Notes that one who claimed a message works on it no longer, whatever the answer will be.
    pub(super) fn lets_go(&self, id: &str, until: Timestamp) {
        let mut pages = self.pages();
        let Some(lane) = pages.entries.get(id).map(|entry| entry.lane.clone()) else { return };
        if let Some(held) = pages.held.get_mut(&lane) {
            held.retain(|held| held.id != id || held.until != until);
        }
    }

    /// Notes an attempt to end a message, before it is made.
    pub(super) fn ends(&self, id: &str) -> Ending<'_> {
        if let Some(entry) = self.pages().entries.get_mut(id) {
            entry.ending += 1;
        }
        Ending { book: self, id: id.to_owned() }
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.pages().problems.clone()
    }

    /// Fails if a message is open that is known to have been written.
    pub(super) fn check_all_ended(&self) -> anyhow::Result<()> {
        let (pages, now) = (self.pages(), self.clock.now());
        let lost: Vec<_> = pages.entries.values().filter(|entry| entry.is_open(now)).collect();
        anyhow::ensure!(lost.is_empty(), "{} messages are lost, such as {:?}", lost.len(), lost[0]);
        Ok(())
    }
}

/// The id of a message that an operator sees.
pub(super) fn id_of(record: &Record) -> String {
    record.message().map(|message| message.id()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::harness::START;

    const UNTIL: Timestamp = Timestamp::from_micros(i64::MAX);

    /// A book with messages of one lane, each written after the one before it.
    fn book(places: usize, ids: &[&str]) -> Book {
        let book = Book::new(ManualClock::new(START), places);
        for id in ids {
            let written = Written { from: book.moment(), to: u64::MAX, at: 0 };
            book.writes((*id).into(), "lane".into(), written, None);
            book.wrote([*id]);
        }
        book
    }

    #[test]
    fn a_message_that_overtakes_another_is_found() {
        let wrong = book(1, &["a", "b"]);
        wrong.claimed("b", UNTIL);
        assert!(wrong.problems()[0].contains("before a"), "{:?}", wrong.problems());
        let right = book(1, &["a", "b"]);
        right.claimed("a", UNTIL);
        right.lets_go("a", UNTIL);
        right.ends("a").settled(1);
        right.claimed("b", UNTIL);
        assert_eq!(right.problems(), Vec::<String>::new());
        assert!(right.check_all_ended().unwrap_err().to_string().contains("1 messages are lost"));
    }

    #[test]
    fn two_of_a_lane_at_once_are_found() {
        let book = book(1, &["a"]);
        let written = Written { from: book.moment(), to: u64::MAX, at: 0 };
        book.writes("b".into(), "lane".into(), written, None);
        book.claimed("b", START.plus(Duration::from_secs(1)));
        book.clock.advance(Duration::from_secs(1));
        book.claimed("b", UNTIL);
        assert_eq!(book.problems().len(), 2, "it came before a, twice: {:?}", book.problems());
        book.claimed("a", UNTIL);
        assert!(book.problems()[2].contains("while b is in progress"), "{:?}", book.problems());
    }

    #[test]
    fn more_than_there_are_places_for_are_found() {
        let book = book(2, &["a", "b", "c"]);
        book.claimed("a", UNTIL);
        book.claimed("b", UNTIL);
        assert_eq!(book.problems(), Vec::<String>::new());
        book.claimed("c", UNTIL);
        assert_eq!(book.problems().len(), 2, "it came before a, and with the others: {:?}", book.problems());
    }

    #[test]
    fn an_end_after_the_end_is_found() {
        let book = book(1, &["a"]);
        book.claimed("a", UNTIL);
        let (first, second, third) = (book.ends("a"), book.ends("a"), book.ends("a"));
        first.settled(0);
        second.settled(1);
        third.settled(1);
        book.claimed("a", UNTIL);
        assert_eq!(book.problems(), ["a ended twice", "a was claimed after it had ended"]);
    }
}
