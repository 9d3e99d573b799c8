//! Turns: among the stores that want to claim, the selection chooses the next one. The number of claims and of messages
//! in progress is limited for all stores together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::tenancy::selection::{Candidate, LastTurn, Selection, first_wanting};
use crate::work::worker::{Gate, WorkerOptions};

/// At most this many stores claim at once, if that many handlers may run.
const CLAIMS_AT_ONCE: usize = 8;
/// How many batches may be in progress, up to `IN_PROGRESS_MAX` messages.
const BATCHES_IN_PROGRESS: usize = 8;
const IN_PROGRESS_MAX: usize = 1000;
/// Maintenance runs on at most this many stores at once.
const UPKEEP_AT_ONCE: usize = 4;

/// The turns on one queue of many stores.
#[derive(Debug)]
pub(super) struct Turns {
    table: Mutex<Table>,
    patience: Duration,
    upkeep: Semaphore,
}

#[derive(Debug)]
struct Table {
    selection: Arc<dyn Selection>,
    /// The stores as the selection sees them, and in the same order the state that the selection need not know.
    candidates: Vec<Candidate>,
    places: Vec<Place>,
    last: Option<LastTurn>,
    /// The number of turns that were given and are not over.
    turns: usize,
    turns_max: usize,
    in_progress: usize,
    in_progress_max: usize,
    batch: usize,
    seated: u64,
    open: bool,
}

#[derive(Debug)]
struct Place {
    seat: u64,
    bell: Arc<Notify>,
    in_progress: usize,
    turn: Turn,
    /// Its last claim failed or was not answered in time. Nobody waits for this store until a claim succeeds.
    troubled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    No,
    Given,
    Taken,
    /// It is claiming, but nobody waits for it.
    Aside,
}

impl Turns {
    pub(super) fn new(selection: Arc<dyn Selection>, options: &WorkerOptions, patience: Duration) -> Arc<Self> {
        let batch = options.batch;
        let table = Table {
            selection,
            candidates: Vec::new(),
            places: Vec::new(),
            last: None,
            turns: 0,
            turns_max: CLAIMS_AT_ONCE.min(options.concurrency),
            in_progress: 0,
            in_progress_max: (batch * BATCHES_IN_PROGRESS)
                .max(batch + options.concurrency)
                .min(batch + IN_PROGRESS_MAX),
            batch,
            seated: 0,
            open: false,
        };
        Arc::new(Self { table: Mutex::new(table), patience, upkeep: Semaphore::new(UPKEEP_AT_ONCE) })
    }

    /// Adds a store at the end. It wants to claim, because its content is unknown.
    pub(super) fn seat(self: &Arc<Self>, name: &str) -> Arc<dyn Gate> {
        let mut table = self.table();
        table.seated += 1;
        let (number, bell) = (table.seated, Arc::new(Notify::new()));
        table.candidates.push(Candidate::new(name).wanting());
        table.places.push(Place { seat: number, bell: bell.clone(), in_progress: 0, turn: Turn::No, troubled: false });
        table.give();
        Arc::new(Seat { turns: self.clone(), number, bell })
    }

    /// Starts giving turns. Before that, stores are only added, so that the first store gets the first turn.
    pub(super) fn open(&self) {
        let mut table = self.table();
        table.open = true;
        table.give();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Gives as many turns as allowed.
    fn give(&mut self) {
        while self.open && self.turns < self.turns_max && self.has_room() {
            let Some(place) = self.choose() else { return };
            self.candidates[place].claiming = true;
            self.places[place].turn = Turn::Given;
            self.places[place].bell.notify_one();
            self.turns += 1;
            self.last = Some(LastTurn::new(place));
        }
    }

    fn has_room(&self) -> bool {
        self.in_progress + (self.turns + 1) * self.batch <= self.in_progress_max
    }

    fn choose(&self) -> Option<usize> {
        let chosen = self.selection.next(&self.candidates, self.last);
        let wants = |place: &usize| self.candidates.get(*place).is_some_and(Candidate::wants_to_claim);
        match chosen.filter(wants) {
            // Without a turn in progress, waiting would never end.
            None if self.turns == 0 => first_wanting(&self.candidates, 0),
            chosen => chosen,
        }
    }

    fn place_of(&self, seat: u64) -> Option<usize> {
        self.places.iter().position(|place| place.seat == seat)
    }

    fn enter(&mut self, place: usize) -> bool {
        match self.places[place].turn {
            Turn::Taken | Turn::Aside => return false,
            Turn::No if self.places[place].troubled => {
                self.places[place].turn = Turn::Aside;
                self.candidates[place].claiming = true;
                return true;
            }
            Turn::No => {
                self.candidates[place].wants = true;
                self.give();
            }
            Turn::Given => {}
        }
        let came = self.places[place].turn == Turn::Given;
        if came {
            self.places[place].turn = Turn::Taken;
        }
        came
    }

    /// Ends the turn at this index, at least as far as the others are concerned.
    fn end(&mut self, place: usize, found: usize) {
        if matches!(self.places[place].turn, Turn::Given | Turn::Taken) {
            self.turns -= 1;
            if let Some(last) = self.last.as_mut().filter(|last| last.store == place) {
                last.found = Some(found);
            }
        }
        self.places[place].turn = Turn::No;
        self.candidates[place].claiming = false;
    }

    fn decline(&mut self, place: usize) {
        self.candidates[place].wants = false;
        if self.places[place].turn == Turn::Given {
            self.end(place, 0);
            self.give();
        }
    }

    fn step_aside(&mut self, place: usize) {
        self.end(place, 0);
        self.places[place].troubled = true;
        self.places[place].turn = Turn::Aside;
        self.candidates[place].claiming = true;
        self.give();
    }

    fn leave(&mut self, place: usize, found: Option<usize>) {
        self.end(place, found.unwrap_or(0));
        self.places[place].troubled = found.is_none();
        // A store that had messages may have more. If not, the store says so.
        self.candidates[place].wants = found > Some(0);
        self.give();
    }

    fn hold(&mut self, place: usize, messages: usize) {
        let held = std::mem::replace(&mut self.places[place].in_progress, messages);
        self.in_progress = self.in_progress - held + messages;
        self.give();
    }

    fn remove(&mut self, place: usize) {
        self.candidates[place].wants = false;
        self.end(place, 0);
        self.hold(place, 0);
        self.candidates.remove(place);
        self.places.remove(place);
        if let Some(last) = self.last.filter(|last| last.store >= place) {
            // The store after it has moved up and is next.
            let found = if last.store == place { Some(0) } else { last.found };
            self.last = last.store.checked_sub(1).map(|store| LastTurn { store, found });
        }
        self.give();
    }
}

/// A store's seat at the table. The seat is free when this is dropped.
#[derive(Debug)]
struct Seat {
    turns: Arc<Turns>,
    number: u64,
    bell: Arc<Notify>,
}

impl Seat {
    fn at<T: Default>(&self, act: impl FnOnce(&mut Table, usize) -> T) -> T {
        let mut table = self.turns.table();
        table.place_of(self.number).map_or_else(T::default, |place| act(&mut table, place))
    }
}

impl Gate for Seat {
    fn enter(&self) -> bool {
        self.at(Table::enter)
    }

    fn decline(&self) {
        self.at(Table::decline);
    }

    fn bell(&self) -> &Notify {
        &self.bell
    }

    fn holds(&self, messages: usize) {
        self.at(|table, place| table.hold(place, messages));
    }

    fn patience(&self) -> Duration {
        self.turns.patience
    }

    fn step_aside(&self) {
        self.at(Table::step_aside);
    }

    fn leave(&self, found: Option<usize>) {
        self.at(|table, place| table.leave(place, found));
    }

    fn upkeep(&self) -> &Semaphore {
        &self.turns.upkeep
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.at(Table::remove);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::{DrainFirst, RoundRobin};

    fn turns(selection: impl Selection, handlers: usize) -> Arc<Turns> {
        let options = WorkerOptions::default().batch(10).concurrency(handlers);
        Turns::new(Arc::new(selection), &options, Duration::from_secs(1))
    }

    fn seats<const N: usize>(turns: &Arc<Turns>) -> [Arc<dyn Gate>; N] {
        let seats = std::array::from_fn(|index| turns.seat(&index.to_string()));
        turns.open();
        seats
    }

    #[test]
    fn one_after_the_other() {
        let [a, b, c] = seats(&turns(RoundRobin, 1));
        assert!(!b.enter() && !c.enter() && a.enter() && !a.enter());
        a.leave(Some(10));
        assert!(!a.enter() && !c.enter() && b.enter());
        b.leave(Some(0));
        assert!(c.enter());
        c.leave(Some(10));
        assert!(a.enter(), "it found something, so it still wants to claim");
        a.leave(Some(0));
        assert!(c.enter(), "the others had nothing");
    }

    #[test]
    fn the_others_wait_until_the_first_is_empty() {
        let [a, b] = seats(&turns(DrainFirst, 16));
        for found in [10, 10, 0] {
            assert!(!b.enter() && a.enter() && !b.enter());
            a.leave(Some(found));
        }
        assert!(b.enter());
    }

    #[test]
    fn nobody_waits_for_a_store_that_does_not_answer() {
        let [a, b] = seats(&turns(RoundRobin, 1));
        assert!(a.enter() && !b.enter());
        a.step_aside();
        assert!(b.enter() && !a.enter());
        a.leave(None);
        assert!(a.enter(), "it does not need a turn while another claims");
        b.leave(Some(10));
        assert!(b.enter());
        b.leave(Some(10));
        a.leave(Some(10));
        assert!(b.enter() && !a.enter(), "it has answered, and needs a turn again");
        b.leave(Some(10));
        assert!(a.enter());
    }

    #[test]
    fn a_turn_that_is_not_wanted_goes_to_the_next() {
        let [a, b, c] = seats(&turns(RoundRobin, 1));
        a.decline();
        assert!(b.enter());
        drop(c);
        drop(b);
        assert!(a.enter(), "all the others are gone");
    }

    #[test]
    fn no_turn_while_too_much_is_in_progress_max() {
        let [a, b] = seats(&turns(RoundRobin, 4));
        assert!(a.enter() && b.enter());
        a.holds(75);
        a.leave(Some(10));
        b.leave(Some(10));
        assert!(!a.enter() && !b.enter(), "80 is the most");
        a.holds(70);
        assert!(a.enter() && !b.enter());
    }

    /// Chooses an index that does not exist.
    #[derive(Debug)]
    struct Confused;

    impl Selection for Confused {
        fn next(&self, _: &[Candidate], _: Option<LastTurn>) -> Option<usize> {
            Some(99)
        }
    }

    #[test]
    fn a_selection_that_is_wrong_stops_nobody() {
        let [a, b] = seats(&turns(Confused, 1));
        assert!(a.enter());
        a.leave(Some(0));
        assert!(b.enter());
    }
}
