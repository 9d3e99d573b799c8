//! What kind of problem it is, from the code that is stored with a failure.

use postroom::queue::Cause;

/// The kind of problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// There is no handler for its topic.
    NoHandler,
    /// There is no route to its destination.
    NoRoute,
    /// The other side asks to retry later.
    Busy,
    /// The other side refuses it.
    Refuses,
    /// The other side does not answer.
    Unreachable,
    /// A newer program wrote it.
    Newer,
    /// The worker crashed.
    Crash,
    /// The database was unavailable.
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

    /// The code for programs, while the message waits for its next attempt.
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
                "Start a program that handles {topic}, or add a section [handlers.\"{topic}\"] to the node: no running \
                 program handles this topic. Waiting uses no attempts."
            ),
            Self::NoRoute => format!(
                "Add {party} to the services of the sending program, or correct its name or key. Waiting uses no \
                 attempts."
            ),
            Self::Busy => {
                format!("Nothing, unless it takes too long: {party} is busy. Waiting uses no attempts.")
            }
            Self::Refuses => format!(
                "Check the address and the key of {party}, and any proxy in front of it. Waiting uses no attempts."
            ),
            Self::Unreachable => {
                format!("Check that {party} is running and that its address is right. Waiting uses no attempts.")
            }
            Self::Newer => format!("Start a newer version of the program that handles {topic}."),
            Self::Crash => {
                "Check the log and the memory use of the worker: it died while handling this message.".to_owned()
            }
            Self::Outage => "Nothing, if the database is available again: this used no attempt.".to_owned(),
            Self::Handler => "Fix the cause of the error; `postroom show` lists every failure.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_messages_own_failures_are_its_handlers() {
        for cause in Cause::ALL {
            let is_own = cause.whose() == postroom::queue::Whose::Message;
            assert_eq!(Trouble::of(Some(*cause)) == Trouble::Handler, is_own, "{cause}");
        }
        assert_eq!(Trouble::of(None), Trouble::Handler);
    }
}
