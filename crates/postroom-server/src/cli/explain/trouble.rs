//! What the last error says about whose trouble it is. The library writes these texts; anything else is a handler's.

/// Whose trouble it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// Nobody registered a handler for its topic.
    NoHandler,
    /// Nobody knows the way to its destination.
    NoRoute,
    /// The destination failed again and again; its breaker is open.
    LeftAlone,
    /// The destination has enough to do.
    Busy,
    /// The destination answered, and not as it should.
    Refuses,
    /// The destination does not answer.
    Unreachable,
    /// The worker vanished.
    Crash,
    /// The database was away.
    Outage,
    /// The handler failed.
    Handler,
}

impl Trouble {
    /// `is_sent` tells whether the message goes to another service.
    pub(super) fn of(error: &str, is_sent: bool) -> Self {
        let error = error.trim_start();
        if error.starts_with("no handler for the topic") {
            Self::NoHandler
        } else if error.starts_with("no way to the destination") {
            Self::NoRoute
        } else if error.starts_with("the worker vanished") {
            Self::Crash
        } else if error.starts_with("the database was away") {
            Self::Outage
        } else if !is_sent {
            Self::Handler
        } else if error.contains("is left alone") {
            Self::LeftAlone
        } else if error.contains("are on their way there already") || answered(error, &["409", "429"]) {
            Self::Busy
        } else if error.starts_with("the destination answered") || error.starts_with("exit status") {
            Self::Refuses
        } else {
            Self::Unreachable
        }
    }

    /// The word for programs, while the message waits for its next attempt.
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::NoHandler => "no-handler",
            Self::NoRoute => "unknown-destination",
            Self::LeftAlone => "destination-left-alone",
            Self::Busy => "destination-busy",
            Self::Refuses => "destination-refuses",
            Self::Unreachable => "destination-unreachable",
            Self::Crash => "crashed-worker",
            Self::Outage => "database-outage",
            Self::Handler => "backoff",
        }
    }

    /// What to do about it.
    pub(super) fn advice(self, topic: &str, party: &str) -> String {
        match self {
            Self::NoHandler => format!(
                "Start a program that handles {topic}: the one that runs has no handler of that name. For a day \
                 nothing is given up for this."
            ),
            Self::NoRoute => format!(
                "Add {party} to the services of the program that sends, or correct the name. For a day nothing is \
                 given up for this."
            ),
            Self::LeftAlone => format!(
                "Look whether {party} runs and can be reached. One message tries again after each pause; waiting \
                 spends no attempt."
            ),
            Self::Busy => {
                format!("Nothing, unless it goes on for long: {party} asks for time. Waiting spends no attempt.")
            }
            Self::Refuses => format!("Look into the log of {party}: it says no. `postroom show` lists every failure."),
            Self::Unreachable => format!("Look whether {party} runs, and whether its address is right."),
            Self::Crash => {
                "Look into the log and the memory of the worker that had it: it ended in the middle of it.".to_owned()
            }
            Self::Outage => "Nothing, if the database is back: no attempt was spent.".to_owned(),
            Self::Handler => "Repair what the error names; `postroom show` lists every failure.".to_owned(),
        }
    }
}

fn answered(error: &str, statuses: &[&str]) -> bool {
    let status = error.strip_prefix("the destination answered ");
    status.is_some_and(|status| statuses.iter().any(|wanted| status.starts_with(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_whose_trouble_it_is() {
        for (error, is_sent, trouble) in [
            ("no handler for the topic a", false, Trouble::NoHandler),
            ("no way to the destination b", true, Trouble::NoRoute),
            ("the destination failed several times in a row and is left alone", true, Trouble::LeftAlone),
            ("32 messages are on their way there already", true, Trouble::Busy),
            ("the destination answered 429", true, Trouble::Busy),
            ("the destination answered 500: broken", true, Trouble::Refuses),
            ("tcp connect error: Connection refused", true, Trouble::Unreachable),
            ("no answer within 10s", true, Trouble::Unreachable),
            ("the worker vanished: its lease ran out", true, Trouble::Crash),
            ("the database was away: the lease ran out", false, Trouble::Outage),
            ("tcp connect error: Connection refused", false, Trouble::Handler),
        ] {
            assert_eq!(Trouble::of(error, is_sent), trouble, "{error}");
        }
    }

    #[test]
    fn the_library_still_says_it_so() {
        for (source, text) in [
            (include_str!("../../../../postroom/src/handler/runner.rs"), "\"no handler for the topic {topic}\""),
            (include_str!("../../../../postroom/src/dispatcher.rs"), "\"no way to the destination {}\""),
            (include_str!("../../../../postroom/src/transport/courier.rs"), "in a row and is left alone\""),
            (
                include_str!("../../../../postroom/src/transport/courier.rs"),
                "messages are on their way there already\"",
            ),
            (include_str!("../../../../postroom/src/transport/judge.rs"), "\"the destination answered {status}"),
            (include_str!("../../../../postroom/src/queue/work.rs"), "\"the worker vanished"),
            (include_str!("../../../../postroom/src/queue/work.rs"), "\"the database was away"),
        ] {
            assert!(source.contains(text), "{text}: nobody says this any more, and `explain` waits for it");
        }
    }
}
