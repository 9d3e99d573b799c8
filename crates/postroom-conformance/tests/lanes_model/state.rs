//! A state of the model, and what can be read off it.

use crate::config::{Config, MOST_WORKERS, Sabotage};
use crate::fault::Faults;
use crate::message::{Each, Lane, List, MOST_MESSAGES, Message};
use crate::notes::{Note, Notes, Why};
use crate::row::{End, Line, Pause, Place, Producer, Rows, describe_rows, producers};
use crate::snapshot::Snapshot;
use crate::worker::Worker;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) producers: [Producer; MOST_MESSAGES],
    /// The messages in the order in which they drew their numbers.
    pub(crate) numbers: List<Message>,
    /// Those that are committed and unfinished, in the order of their commits.
    pub(crate) commits: List<Message>,
    pub(crate) rows: Rows,
    pub(crate) line: Each<Line>,
    pub(crate) ends: Each<End>,
    pub(crate) workers: [Worker; MOST_WORKERS],
    pub(crate) faults: Faults,
    pub(crate) pause: Pause,
    /// How often each message came back to its lane. With it a number names one row, and no other that comes later.
    pub(crate) generations: Each<u8>,
    pub(crate) notes: Notes,
}

/// What the transactions of workers have locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locked {
    pub(crate) rows: Each<bool>,
    pub(crate) notes: Notes,
}

impl State {
    pub(crate) fn initial(config: &Config) -> Self {
        let mut workers = [Worker::Absent; MOST_WORKERS];
        workers[..config.workers].fill(Worker::Idle);
        Self {
            producers: producers(config),
            numbers: List::EMPTY,
            commits: List::EMPTY,
            rows: Each::all(None),
            line: Each::all(Line::NEW),
            ends: Each::all(End::Open),
            workers,
            faults: config.faults,
            pause: Pause::No,
            generations: Each::all(0),
            notes: Notes::NONE,
        }
    }

    /// Returns whether everybody is done and nothing is left to do.
    pub(crate) fn is_complete(&self) -> bool {
        self.producers.iter().all(|producer| producer.has_ended())
            && self.commits.is_empty()
            && self.pause == Pause::No
            && self.workers.iter().all(|worker| matches!(worker, Worker::Idle | Worker::Absent))
            && !self.line.0.iter().any(|line| line.is_in_line())
            && self.rows.0.iter().all(Option::is_none)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let Self { rows, numbers, generations, notes, pause, .. } = *self;
        Snapshot { rows, numbers, generations, notes, pause }
    }

    /// Returns what workers have locked, without the one that asks.
    pub(crate) fn locked_by_others(&self, me: Option<usize>) -> Locked {
        let mut locked = Locked { rows: Each::all(false), notes: Notes::NONE };
        let others = self.workers.iter().enumerate().filter(|(at, _)| Some(*at) != me);
        for (_, worker) in others {
            match *worker {
                Worker::Noted { mine } | Worker::Decided { mine, .. } => locked.notes = locked.notes.and(mine),
                Worker::Written { mine, writes, .. } => {
                    locked.notes = locked.notes.and(mine);
                    writes.iter().for_each(|write| locked.rows[write.message] = true);
                }
                Worker::Settling { message, .. } | Worker::Expiring { message } => locked.rows[message] = true,
                Worker::Handling { .. } | Worker::Idle | Worker::Began(_) | Worker::Absent => {}
            }
        }
        locked
    }

    pub(crate) fn note(&self, config: &Config, why: Why, message: Message) -> Note {
        Note { lane: config.lane_of(message), why, message, generation: self.generations[message] }
    }

    /// Returns the notes after these were written.
    pub(crate) fn noted(&self, config: &Config, new: &[Note]) -> Notes {
        let merges = config.is(Sabotage::OneNoteForALane);
        let is_kept = |note: &&Note| !merges || self.notes.of_lane(note.lane).is_empty();
        new.iter().filter(is_kept).fold(self.notes, |notes, note| notes.with(*note))
    }

    /// Returns whether no message is before this one in its lane.
    pub(crate) fn is_first(&self, config: &Config, message: Message) -> bool {
        let mut before = self.numbers.iter().take_while(|other| *other != message);
        !before.any(|other| config.lane_of(other) == config.lane_of(message) && self.rows[other].is_some())
    }

    pub(crate) fn has_waiting(&self, config: &Config, lane: Lane) -> bool {
        let mut in_lane = config.messages().filter(|message| config.lane_of(*message) == lane);
        in_lane.any(|message| self.rows[message] == Some(Place::Waits))
    }

    pub(crate) fn describe(&self, config: &Config) -> String {
        let places = self.rows.0.map(|row| row.map(Place::name));
        let notes = if self.notes.is_empty() { "none".to_owned() } else { self.notes.to_string() };
        format!("{}; notes: {notes}", describe_rows(config, &Each(places), &self.line))
    }
}
