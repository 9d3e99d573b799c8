//! An answer: the current situation, what happens next, and what to do.

use postroom::clock::Timestamp;

/// Why a message is in its current state.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    /// A code for programs; the guide lists all of them.
    pub(super) cause: &'static str,
    /// The current situation.
    pub(super) is: String,
    pub(super) since: Option<Timestamp>,
    /// What happens next without an operator.
    pub(super) next: String,
    pub(super) next_at: Option<Timestamp>,
    /// What an operator can do.
    pub(super) advice: String,
}

impl Answer {
    pub(super) fn new(cause: &'static str, is: impl Into<String>) -> Self {
        Self { cause, is: is.into(), since: None, next: String::new(), next_at: None, advice: String::new() }
    }

    pub(super) fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// What happens next, at an unknown time.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// What happens next, and when.
    pub(super) fn next_at(mut self, at: Option<Timestamp>, next: impl Into<String>) -> Self {
        self.next_at = at;
        self.next(next)
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}
