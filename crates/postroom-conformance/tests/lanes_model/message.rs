//! Messages, lanes, and small collections of them. States are compared and hashed by the million, so that none of
//! these is on the heap.

use std::fmt;
use std::ops::{Index, IndexMut};

/// No configuration has more messages: each more multiplies the states.
pub(crate) const MOST_MESSAGES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Message {
    M0,
    M1,
    M2,
    M3,
}

impl Message {
    pub(crate) const ALL: [Self; MOST_MESSAGES] = [Self::M0, Self::M1, Self::M2, Self::M3];
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", *self as usize)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Lane {
    A,
    B,
}

impl Lane {
    pub(crate) const ALL: [Self; 2] = [Self::A, Self::B];
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One value for each message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Each<T>(pub(crate) [T; MOST_MESSAGES]);

impl<T: Copy> Each<T> {
    pub(crate) const fn all(value: T) -> Self {
        Self([value; MOST_MESSAGES])
    }

    /// Returns the same values, with another one for this message.
    pub(crate) fn with(mut self, message: Message, value: T) -> Self {
        self[message] = value;
        self
    }
}

impl<T> Index<Message> for Each<T> {
    type Output = T;

    fn index(&self, message: Message) -> &T {
        &self.0[message as usize]
    }
}

impl<T> IndexMut<Message> for Each<T> {
    fn index_mut(&mut self, message: Message) -> &mut T {
        &mut self.0[message as usize]
    }
}

/// A list with at most one item for each message. Lists are in the order of their first items that differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct List<T>([Option<T>; MOST_MESSAGES]);

impl<T: Copy + PartialEq> List<T> {
    pub(crate) const EMPTY: Self = Self([None; MOST_MESSAGES]);

    pub(crate) fn push(&mut self, item: T) {
        let end = self.0.iter_mut().find(|slot| slot.is_none());
        *end.expect("a list has at most one item for each message") = Some(item);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().map_while(|slot| *slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(crate) fn contains(&self, item: T) -> bool {
        self.0.contains(&Some(item))
    }

    pub(crate) fn with(mut self, item: T) -> Self {
        self.push(item);
        self
    }

    pub(crate) fn without(&self, item: T) -> Self {
        self.filter(|other| other != item)
    }

    pub(crate) fn filter(&self, wanted: impl Fn(T) -> bool) -> Self {
        self.iter().filter(|item| wanted(*item)).collect()
    }
}

impl<T: Copy + PartialEq> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().fold(Self::EMPTY, List::with)
    }
}

impl fmt::Display for List<Message> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", joined(self.iter()))
    }
}

pub(crate) fn joined(items: impl Iterator<Item = impl fmt::Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
