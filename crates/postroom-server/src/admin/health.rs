//! Whether all is well: green, yellow or red, with the reasons. Judged from numbers alone.

use std::time::Duration;

use postroom::QueueStats;
use serde::Serialize;

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Green,
    Yellow,
    Red,
}

/// One thing that is not well.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(super) struct Reason {
    level: Level,
    what: String,
}

/// How it stands, and why.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(super) struct Health {
    pub(super) status: Level,
    pub(super) reasons: Vec<Reason>,
}

const WAITING_MANY: u64 = 100_000;
const WAITING_LONG: Duration = Duration::from_secs(15 * 60);

impl Health {
    /// The database does not answer.
    pub(super) fn no_database() -> Self {
        let what = "the database cannot be reached".to_owned();
        Self { status: Level::Red, reasons: vec![Reason { level: Level::Red, what }] }
    }

    /// Judges both queues.
    pub(super) fn of(outbox: &QueueStats, inbox: &QueueStats) -> Self {
        let mut reasons = Vec::new();
        for (name, stats) in [("outbox", outbox), ("inbox", inbox)] {
            let mut note = |is_so: bool, what: String| {
                if is_so {
                    reasons.push(Reason { level: Level::Yellow, what });
                }
            };
            let age = stats.oldest_waiting.unwrap_or_default();
            note(stats.ready > WAITING_MANY, format!("{} messages wait in the {name}", stats.ready));
            note(age > WAITING_LONG, format!("a message has waited in the {name} for {} minutes", age.as_secs() / 60));
            note(stats.dead > 0, format!("{} messages of the {name} were given up", stats.dead));
            note(stats.expired > 0, format!("{} messages of the {name} were not delivered in time", stats.expired));
        }
        let status = reasons.iter().map(|reason| reason.level).max().unwrap_or(Level::Green);
        Self { status, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_well_is_named() {
        let well = QueueStats::default();
        assert_eq!(Health::of(&well, &well), Health { status: Level::Green, reasons: Vec::new() });
        let mut outbox = QueueStats::default();
        (outbox.dead, outbox.ready) = (2, WAITING_MANY + 1);
        outbox.oldest_waiting = Some(Duration::from_secs(3600));
        let health = Health::of(&outbox, &well);
        let reasons: Vec<_> = health.reasons.iter().map(|reason| reason.what.as_str()).collect();
        assert_eq!(health.status, Level::Yellow);
        assert_eq!(
            reasons,
            [
                "100001 messages wait in the outbox",
                "a message has waited in the outbox for 60 minutes",
                "2 messages of the outbox were given up"
            ]
        );
        assert_eq!(Health::no_database().status, Level::Red);
    }
}
