//! How much of an error a token may see.

use postroom::queue::State;

use super::{Rights, Scope};

/// How much of an error a token may see. The later lines quote other services and commands, and may be as secret as a
/// payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    FirstLine,
    Whole,
}

impl Sight {
    pub(super) fn of(rights: &Rights) -> Self {
        if rights.may(Scope::Payload) { Self::Whole } else { Self::FirstLine }
    }

    pub(super) fn of_error(self, error: &str) -> &str {
        match self {
            Self::FirstLine => error.lines().next().unwrap_or_default(),
            Self::Whole => error,
        }
    }

    /// The visible part of an error, or a text if there is none.
    pub(super) fn words(self, state: State, error: Option<&str>) -> &str {
        match (error, state) {
            (Some(error), _) => self.of_error(error),
            (None, State::Expired) => "not delivered in time",
            (None, _) => "no error was recorded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_words_the_state_speaks() {
        assert_eq!(Sight::Whole.words(State::Expired, None), "not delivered in time");
        assert_eq!(Sight::FirstLine.words(State::Dead, None), "no error was recorded");
    }

    #[test]
    fn only_the_first_line_is_seen_without_the_right() {
        let error = "it answered 422\n{\"name\": \"Ada\"}";
        assert_eq!(Sight::FirstLine.words(State::Dead, Some(error)), "it answered 422");
        assert_eq!(Sight::Whole.words(State::Dead, Some(error)), error);
        assert_eq!(Sight::FirstLine.words(State::Dead, Some("")), "");
    }
}
