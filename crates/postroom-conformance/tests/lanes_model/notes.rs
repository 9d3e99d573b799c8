//! Notes: each says "look at this lane". A note is written once and never changed.

use std::cmp::Ordering;
use std::fmt;

use crate::message::{Lane, Message, joined};

/// What happened. The order of these, and of the fields of a note, is the order in which a look finds notes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    Came,
    Died,
    GivenUp,
    Left,
    Rule,
    Waits,
}

impl Why {
    const ALL: [Self; 6] = [Self::Came, Self::Died, Self::GivenUp, Self::Left, Self::Rule, Self::Waits];
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Note {
    pub(crate) lane: Lane,
    pub(crate) why: Why,
    pub(crate) message: Message,
    /// With it a note tells of one row of the message, and not of one that comes later.
    pub(crate) generation: u8,
}

impl Note {
    fn bit(self) -> u128 {
        assert!(self.generation < 2, "a note has one bit for the generation");
        let in_lane = 8 * self.why as usize + 2 * self.message as usize + usize::from(self.generation);
        1 << (64 * self.lane as usize + in_lane)
    }

    fn of_bit(place: u32) -> Self {
        let place = place as usize;
        Self {
            lane: Lane::ALL[place / 64],
            why: Why::ALL[place % 64 / 8],
            message: Message::ALL[place % 8 / 2],
            generation: u8::from(place % 2 == 1),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Came => write!(f, "{} came", self.message),
            Why::Died => write!(f, "{} died", self.message),
            Why::GivenUp => write!(f, "{} given up", self.message),
            Why::Left => write!(f, "{} left", self.message),
            Why::Rule => write!(f, "rule changed"),
            Why::Waits => write!(f, "{} waits again", self.message),
        }
    }
}

/// A set of notes, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Notes(u128);

impl Notes {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn contains(self, note: Note) -> bool {
        self.0 & note.bit() != 0
    }

    pub(crate) fn with(self, note: Note) -> Self {
        Self(self.0 | note.bit())
    }

    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    pub(crate) fn of_lane(self, lane: Lane) -> Self {
        Self(self.0 & u128::from(u64::MAX) << (64 * lane as usize))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Note> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = (rest != 0).then(|| Note::of_bit(rest.trailing_zeros()));
            rest &= rest.wrapping_sub(1);
            next
        })
    }

    /// Returns what a look may take: any of these together, because others may hold the rest. Of many it takes one or
    /// all, because every choice is a state more.
    pub(crate) fn choices(self) -> Vec<Self> {
        let singles: Vec<_> = self.iter().map(|note| Self::NONE.with(note)).collect();
        if singles.len() > 3 {
            return singles.into_iter().chain([self]).collect();
        }
        let chosen = |bits: usize| singles.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
        let together = |bits| chosen(bits).fold(Self::NONE, |all, (_, one)| all.and(*one));
        (1..1 << singles.len()).map(together).collect()
    }
}

impl PartialOrd for Notes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Notes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl FromIterator<Note> for Notes {
    fn from_iter<I: IntoIterator<Item = Note>>(notes: I) -> Self {
        notes.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", joined(self.iter()))
    }
}
