//! What one run of the model has: producers and their messages, workers, faults, and what is sabotaged.

use crate::fault::{Fault, Faults};
use crate::message::{Each, Lane, Message};

/// No configuration has more workers.
pub(crate) const MOST_WORKERS: usize = 3;

/// The lanes of a producer's messages, in the order in which its transaction enqueues them.
pub(crate) type Script = &'static [Lane];

/// What becomes of a lane when a message of it dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// The others go on.
    Skip,
    /// They go on, and the rule is one of a group: a resume finds their lanes after its commit.
    SkipInGroup,
    /// The others wait until an operator decides.
    Block,
    /// Only the newest of those that wait goes on.
    Newest,
}

/// In how many snapshots a look sees notes and lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// It takes notes in one statement, and then sees their lanes in the next.
    TwoStatements,
    /// It sees notes and lanes in the same snapshot.
    OneStatement,
    /// The same in PostgreSQL's REPEATABLE READ, which refuses what changed since.
    Serial,
    /// It sees lanes as they were, and notes as they are: MySQL's REPEATABLE READ.
    NewerNotes,
}

/// What is taken away from the protocol, or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    NoProducerLock,
    NumberBeforeLock,
    UnlockEarly,
    NoFence,
    SkipLockedHeads,
    NoteBeforeCommit,
    ForgetSkipped,
    OneNoteForALane,
    DiedIsAnothers,
    ByMessage,
    SilentSettle,
    SilentRetry,
    NoLeaseFence,
    ReviveOldNumber,
    ResumeWithoutNote,
    ResumeOfGroupAtOnce,
    /// The last three are of the sketch.
    NoWorkerLock,
    LockAndLookAtOnce,
    HandlerInRepeatableRead,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) scripts: &'static [Script],
    pub(crate) places: usize,
    pub(crate) workers: usize,
    pub(crate) faults: Faults,
    pub(crate) policy: Policy,
    pub(crate) look: Look,
    sabotage: Option<Sabotage>,
    lane_of: Each<Lane>,
    messages: usize,
}

impl Config {
    /// Two workers, one place, and nothing goes wrong.
    pub(crate) fn new(scripts: &'static [Script]) -> Self {
        let lanes = scripts.concat();
        let mut lane_of = Each::all(Lane::A);
        lane_of.0[..lanes.len()].copy_from_slice(&lanes);
        Self {
            scripts,
            places: 1,
            workers: 2,
            faults: Faults::of(&[]),
            policy: Policy::Skip,
            look: Look::TwoStatements,
            sabotage: None,
            lane_of,
            messages: lanes.len(),
        }
    }

    pub(crate) fn places(self, places: usize) -> Self {
        Self { places, ..self }
    }

    pub(crate) fn workers(self, workers: usize) -> Self {
        assert!(workers <= MOST_WORKERS, "a state has room for {MOST_WORKERS} workers");
        Self { workers, ..self }
    }

    pub(crate) fn faults(self, faults: &[Fault]) -> Self {
        Self { faults: Faults::of(faults), ..self }
    }

    pub(crate) fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    pub(crate) fn look(self, look: Look) -> Self {
        Self { look, ..self }
    }

    pub(crate) fn sabotage(self, sabotage: Sabotage) -> Self {
        Self { sabotage: Some(sabotage), ..self }
    }

    pub(crate) fn is(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    pub(crate) fn lane_of(&self, message: Message) -> Lane {
        self.lane_of[message]
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> + use<> {
        Message::ALL.into_iter().take(self.messages)
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane> {
        Lane::ALL.into_iter().filter(|lane| self.messages().any(|message| self.lane_of(message) == *lane))
    }

    /// Returns the messages of a producer, in the order of its script.
    pub(crate) fn messages_of(&self, producer: usize) -> &'static [Message] {
        const ALL: &[Message] = &Message::ALL;
        let first = self.scripts[..producer].iter().map(|script| script.len()).sum();
        &ALL[first..][..self.scripts[producer].len()]
    }

    /// Returns the producer before this one that has the same script. Such producers are alike: that they begin in
    /// their order saves states and loses nothing.
    pub(crate) fn alike_before(&self, producer: usize) -> Option<usize> {
        (0..producer).rev().find(|other| self.scripts[*other] == self.scripts[producer])
    }
}
