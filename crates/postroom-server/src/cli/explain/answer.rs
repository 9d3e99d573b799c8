//! An answer: what is the case, what happens next by itself, and what to do.

use postroom::Timestamp;

/// Why a message stands where it stands.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    /// A word for programs; the list stands in the guide.
    pub(super) cause: &'static str,
    /// What is the case.
    pub(super) is: String,
    pub(super) since: Option<Timestamp>,
    /// What happens by itself.
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

    /// What happens by itself, without a time.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// What happens by itself, and when.
    pub(super) fn next_at(mut self, at: Option<Timestamp>, next: impl Into<String>) -> Self {
        self.next_at = at;
        self.next(next)
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}
