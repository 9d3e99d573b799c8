//! Whose trouble it is, by the code that is stored with a failure.

use postroom::Cause;

/// Whose trouble it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// Nobody registered a handler for its topic.
    NoHandler,
    /// Nobody knows the way to its destination.
    NoRoute,
    /// The other side asks for time.
    Busy,
    /// The other side answered, and not as it should.
    Refuses,
    /// The other side does not answer.
    Unreachable,
    /// It was written by a newer program.
    Newer,
    /// The worker crashed.
    Crash,
    /// The database was away.
    Outage,
    /// The handler failed.
    Handler,
}

impl Trouble {
    pub(super) fn of(cause: Option<Cause>) -> Self {
        match cause {
            Some(Cause::NoHandler) => Self::NoHandler,
            Some(Cause::NoRoute | Cause::NoKey) => Self::NoRoute,
            Some(Cause::Busy | Cause::Postponed) => Self::Busy,
            Some(Cause::NotAllowed | Cause::NotFound | Cause::Unproven) => Self::Refuses,
            Some(Cause::Unreachable | Cause::TimedOut | Cause::Unavailable) => Self::Unreachable,
            Some(Cause::NewerVersion) => Self::Newer,
            Some(Cause::Crashed) => Self::Crash,
            Some(Cause::DatabaseUnavailable | Cause::DatabaseConflict) => Self::Outage,
            _ => Self::Handler,
        }
    }

    /// The word for programs, while the message waits for its next attempt.
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::NoHandler => "no-handler",
            Self::NoRoute => "unknown-destination",
            Self::Busy => "destination-busy",
            Self::Refuses => "destination-refuses",
            Self::Unreachable => "destination-unreachable",
            Self::Newer => "newer-version",
            Self::Crash => "crashed-worker",
            Self::Outage => "database-outage",
            Self::Handler => "backoff",
        }
    }

    /// What to do about it.
    pub(super) fn advice(self, topic: &str, party: &str) -> String {
        match self {
            Self::NoHandler => format!(
                "Start a program that handles {topic}, or give the node a [handlers.\"{topic}\"] section: nobody who \
                 runs handles this topic. Waiting spends no attempt."
            ),
            Self::NoRoute => format!(
                "Add {party} to the services of the program that sends, or correct its name or its key. Waiting \
                 spends no attempt."
            ),
            Self::Busy => {
                format!("Nothing, unless it goes on for long: {party} asks for time. Waiting spends no attempt.")
            }
            Self::Refuses => format!(
                "Check the address and the key of {party}, and what stands in front of it. Waiting spends no attempt."
            ),
            Self::Unreachable => {
                format!("Look whether {party} runs, and whether its address is right. Waiting spends no attempt.")
            }
            Self::Newer => format!("Start a newer version of the program that handles {topic}."),
            Self::Crash => {
                "Look into the log and the memory of the worker that had it: it ended in the middle of it.".to_owned()
            }
            Self::Outage => "Nothing, if the database is back: no attempt was spent.".to_owned(),
            Self::Handler => "Repair what the error names; `postroom show` lists every failure.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_messages_own_failures_are_its_handlers() {
        for cause in Cause::ALL {
            let is_own = cause.whose() == postroom::Whose::Message;
            assert_eq!(Trouble::of(Some(*cause)) == Trouble::Handler, is_own, "{cause}");
        }
        assert_eq!(Trouble::of(None), Trouble::Handler);
    }
}
