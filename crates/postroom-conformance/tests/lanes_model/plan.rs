//! What a look decides from its snapshot, and what it writes of that.

use std::fmt;

use crate::config::{Config, Policy, Sabotage};
use crate::message::{Each, Lane, List, Message, joined};
use crate::notes::{Note, Notes, Why};
use crate::row::Place;
use crate::snapshot::Snapshot;

/// What should become of a lane row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Aim {
    Gone,
    Holds,
    Stuck,
}

impl Aim {
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Self::Gone => None,
            Self::Holds => Some(Place::Holds),
            Self::Stuck => Some(Place::Stuck),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Planned {
    pub(crate) message: Message,
    pub(crate) generation: u8,
    pub(crate) aim: Aim,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Write {
    pub(crate) message: Message,
    pub(crate) aim: Aim,
}

/// Decides about the lanes of these notes.
pub(crate) fn decide(config: &Config, snapshot: &Snapshot, mine: Notes, hidden: &Each<bool>) -> List<Planned> {
    let lanes = Lane::ALL.into_iter().filter(|lane| !mine.of_lane(*lane).is_empty());
    let mut plan = List::EMPTY;
    for lane in lanes {
        let in_lane = snapshot
            .numbers
            .filter(|message| config.lane_of(message) == lane && snapshot.rows[message].is_some() && !hidden[message]);
        for (message, aim) in decide_lane(config, snapshot, mine, in_lane) {
            plan.push(Planned { message, generation: snapshot.generations[message], aim });
        }
    }
    plan
}

fn decide_lane(config: &Config, snapshot: &Snapshot, mine: Notes, in_lane: List<Message>) -> Vec<(Message, Aim)> {
    let is = |message: Message, place| snapshot.rows[message] == Some(place);
    let died = in_lane.filter(|message| is(message, Place::Died));
    let mut aims = Vec::new();
    let mut live = in_lane;
    if config.policy == Policy::Block {
        aims.extend(died.iter().map(|message| (message, Aim::Stuck)));
    } else {
        let passed = if config.is(Sabotage::DiedIsAnothers) {
            died.filter(|message| mine.contains(tells_of_death(config, snapshot, message)))
        } else {
            died
        };
        live = live.filter(|message| !passed.contains(message));
        let waits = live.filter(|message| is(message, Place::Waits));
        let goes_on = config.policy != Policy::Newest || died.is_empty();
        let older: List<_> = waits.iter().take(if goes_on { 0 } else { waits.len().saturating_sub(1) }).collect();
        live = live.filter(|message| !older.contains(message));
        aims.extend(passed.iter().chain(older.iter()).map(|message| (message, Aim::Gone)));
    }
    let heads: List<_> = live.iter().take(config.places).collect();
    let blocks =
        |message: &Message| config.policy == Policy::Block && (is(*message, Place::Died) || is(*message, Place::Stuck));
    if !snapshot.pause.stops_promotion() {
        let next = heads.iter().take_while(|message| !blocks(message)).filter(|message| is(*message, Place::Waits));
        aims.extend(next.map(|message| (message, Aim::Holds)));
    }
    aims
}

fn tells_of_death(config: &Config, snapshot: &Snapshot, message: Message) -> Note {
    Note { lane: config.lane_of(message), why: Why::Died, message, generation: snapshot.generations[message] }
}

impl fmt::Display for List<Planned> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = self.iter().filter(|planned| planned.aim == Aim::Holds);
        write!(f, "promote [{}]", joined(heads.map(|planned| planned.message)))?;
        for planned in self.iter().filter(|planned| planned.aim != Aim::Holds) {
            write!(f, ", {} {}", planned.message, if planned.aim == Aim::Gone { "goes" } else { "blocks" })?;
        }
        Ok(())
    }
}

impl fmt::Display for List<Write> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "nothing");
        }
        let named = |write: Write| format!("{} {}", write.message, write.aim.place().map_or("deleted", Place::name));
        write!(f, "{}", joined(self.iter().map(named)))
    }
}
