//! The health of the node: green, yellow or red, with the reasons. A pure function of the collected facts.

use std::time::Duration;

use postroom::clock::{ClockJump, JumpState};
use serde::Serialize;

use super::look::{Look, Room};
use crate::{lane, output};

/// The level of health.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Green,
    Yellow,
    Red,
}

/// The kind of problem.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Database,
    Schema,
    Backlog,
    Delay,
    Dead,
    Expired,
    Destination,
    Handler,
    Paused,
    Lane,
    Window,
    Disk,
    Log,
    Clock,
    Jump,
}

/// One problem.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(super) struct Reason {
    level: Level,
    kind: Kind,
    /// With names and numbers, so only for clients with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
}

/// The health and its reasons.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(super) struct Health {
    pub(super) status: Level,
    reasons: Vec<Reason>,
}

const WAITING_MANY: u64 = 100_000;
const WAITING_LONG: Duration = Duration::from_secs(15 * 60);
/// Signatures and due times follow the clock of the database; people and logs follow this machine's.
const CLOCK_OFF: Duration = Duration::from_secs(5);
/// How long a clock jump is reported after it was accepted or undone.
const JUMP_TOLD: Duration = Duration::from_secs(3600);
const MIB: u64 = 1024 * 1024;
/// A log of this size means that a long read transaction prevents a checkpoint.
const LOG_LARGE: u64 = 256 * MIB;

impl Health {
    /// Judges the facts; there are none if the database does not answer.
    pub(super) fn of(look: Option<&Look>) -> Self {
        let mut reasons = Vec::new();
        let mut note = |level, kind, what: String| reasons.push(Reason { level, kind, what: Some(what) });
        match look {
            None => note(Level::Red, Kind::Database, "the database is unavailable".into()),
            Some(Look { schema: Some(what), .. }) => note(Level::Red, Kind::Schema, what.clone()),
            Some(look) => {
                queues(look, &mut note);
                others(look, &mut note);
                ground(look, &mut note);
            }
        }
        let status = reasons.iter().map(|reason| reason.level).max().unwrap_or(Level::Green);
        Self { status, reasons }
    }

    /// Whether it must be checked again soon.
    pub(super) fn is_bad(&self) -> bool {
        self.status == Level::Red
    }

    /// Without the details that need a token.
    pub(super) fn for_strangers(&self) -> Self {
        let reasons = self.reasons.iter().map(|reason| Reason { what: None, ..reason.clone() });
        Self { status: self.status, reasons: reasons.collect() }
    }
}

/// The messages.
fn queues(look: &Look, note: &mut impl FnMut(Level, Kind, String)) {
    if look.is_uncounted {
        note(Level::Yellow, Kind::Database, "the database answers, but is too slow to count the messages".into());
    }
    for (name, stats) in [("outbox", &look.outbox), ("inbox", &look.inbox)] {
        let late = stats.overdue.unwrap_or_default();
        if stats.ready > WAITING_MANY {
            note(Level::Yellow, Kind::Backlog, counted(stats.ready, "ready", name));
        }
        if late > WAITING_LONG {
            let minutes = late.as_secs() / 60;
            note(Level::Yellow, Kind::Delay, format!("a message in the {name} is {minutes} minutes late"));
        }
        if stats.dead > 0 {
            note(Level::Yellow, Kind::Dead, counted(stats.dead, "dead", name));
        }
        if stats.expired > 0 {
            note(Level::Yellow, Kind::Expired, counted(stats.expired, "expired", name));
        }
    }
}

/// `1 message is dead in the outbox`, `2 messages are dead in the outbox`.
fn counted(messages: u64, state: &str, queue: &str) -> String {
    let verb = if messages == 1 { "is" } else { "are" };
    format!("{} {verb} {state} in the {queue}", output::count(messages, "message"))
}

/// The places that messages go to.
fn others(look: &Look, note: &mut impl FnMut(Level, Kind, String)) {
    for hold in &look.holds {
        let kind = if hold.place.kind() == "service" { Kind::Destination } else { Kind::Handler };
        note(Level::Yellow, kind, output::waiting(hold));
    }
    for (queue, rule) in look.rules.iter().filter(|(_, rule)| rule.paused.is_some()) {
        note(Level::Yellow, Kind::Paused, output::rule(*queue, rule));
    }
    for what in look.lanes.iter().filter_map(|(queue, lanes)| lane::blocked(*queue, lanes)) {
        note(Level::Yellow, Kind::Lane, what);
    }
    for service in &look.destinations {
        let name = &service.name;
        if let Some(window) = service.window.filter(|_| service.forgets_early) {
            let hours = window.as_secs() / 3600;
            let what = format!("{name} recognises duplicates for {hours} hours, but some messages to it live longer");
            note(Level::Yellow, Kind::Window, what);
        }
    }
}

/// The disk, the log and the clock of the database.
fn ground(look: &Look, note: &mut impl FnMut(Level, Kind, String)) {
    if let Some((level, free)) = look.room.and_then(scarce) {
        note(level, Kind::Disk, format!("the disk of the database has {} MiB left", free / MIB));
    }
    if let Some(bytes) = look.log_bytes.filter(|bytes| *bytes > LOG_LARGE) {
        note(Level::Yellow, Kind::Log, format!("the log of the database has grown to {} MiB", bytes / MIB));
    }
    if look.clock_off > CLOCK_OFF {
        let seconds = look.clock_off.as_secs();
        note(Level::Yellow, Kind::Clock, format!("the clocks of this machine and the database are {seconds} s apart"));
    }
    let is_told = |jump: &&ClockJump| jump.state == JumpState::Doubted || jump.ago < JUMP_TOLD;
    if let Some(jump) = look.clock_jump.as_ref().filter(is_told) {
        note(Level::Yellow, Kind::Jump, jump.to_string());
    }
}

/// The level for little free space. The limits are capped, because a small part of a large disk is still a lot.
fn scarce(Room { free, total }: Room) -> Option<(Level, u64)> {
    match free {
        _ if free < (total / 50).min(512 * MIB) => Some((Level::Red, free)),
        _ if free < (total / 10).min(5 * 1024 * MIB) => Some((Level::Yellow, free)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use postroom::clock::{Clock, ManualClock, Timestamp};
    use postroom::services::{Courier, Key, Secret, Service, Services};

    use super::*;

    const KEY: &str = "known to both services of this test";

    fn judged(look: &Look) -> (Level, Vec<String>) {
        let health = Health::of(Some(look));
        (health.status, health.reasons.into_iter().filter_map(|reason| reason.what).collect())
    }

    #[test]
    fn what_is_not_well_is_named() {
        assert_eq!(judged(&Look::default()), (Level::Green, Vec::new()));
        let mut look = Look::default();
        (look.outbox.dead, look.outbox.ready) = (2, WAITING_MANY + 1);
        look.outbox.overdue = Some(Duration::from_secs(3600));
        look.inbox.expired = 1;
        (look.log_bytes, look.clock_off) = (Some(LOG_LARGE + MIB), Duration::from_secs(7));
        let (level, told) = judged(&look);
        assert_eq!(level, Level::Yellow);
        assert_eq!(
            told,
            [
                "100001 messages are ready in the outbox",
                "a message in the outbox is 60 minutes late",
                "2 messages are dead in the outbox",
                "1 message is expired in the inbox",
                "the log of the database has grown to 257 MiB",
                "the clocks of this machine and the database are 7 s apart",
            ]
        );
    }

    #[test]
    fn a_service_that_forgets_early_is_named() {
        let billing =
            Service::new("billing", "http://127.0.0.1:9").keys(Key::new("1", Secret::parse(KEY).unwrap()).unwrap());
        let mut billing = Courier::new(Services::new("shop").service(billing)).unwrap().destinations().remove(0);
        assert_eq!(judged(&Look { destinations: vec![billing.clone()], ..Look::default() }).0, Level::Green);
        (billing.forgets_early, billing.window) = (true, Some(Duration::from_secs(12 * 3600)));
        let (level, told) = judged(&Look { destinations: vec![billing], ..Look::default() });
        assert_eq!(level, Level::Yellow);
        assert_eq!(told, ["billing recognises duplicates for 12 hours, but some messages to it live longer"]);
    }

    #[test]
    fn a_clock_that_jumped_is_told_for_an_hour() {
        let hands = ManualClock::new(Timestamp::from_micros(0));
        let clock = Clock::Manual(hands.clone());
        let told = || judged(&Look { clock_jump: clock.jump(), ..Look::default() });
        assert_eq!(told(), (Level::Green, Vec::new()));
        hands.set(Timestamp::from_micros(7_200_000_000));
        let doubted =
            "the clock jumped 7200 s ahead, 0 s ago; until this is confirmed, the time goes on without the jump";
        assert_eq!(told(), (Level::Yellow, vec![doubted.to_owned()]));
        hands.advance(Duration::from_secs(10));
        let accepted = "the clock jumped 7200 s ahead, 10 s ago; the new time was confirmed and is used";
        assert_eq!(told(), (Level::Yellow, vec![accepted.to_owned()]));
        hands.advance(JUMP_TOLD);
        assert_eq!(told().0, Level::Green);
    }

    #[test]
    fn a_message_that_is_due_later_is_not_late() {
        let mut look = Look::default();
        (look.outbox.ready, look.outbox.oldest_waiting) = (1, Some(Duration::from_secs(7 * 24 * 3600)));
        assert_eq!(judged(&look).0, Level::Green);
    }

    #[test]
    fn a_full_disk_and_foreign_tables_stop_the_work() {
        let gib = 1024 * MIB;
        for (free, total, level) in [
            (50 * gib, 100 * gib, Level::Green),
            (6 * gib, 1000 * gib, Level::Green),
            (4 * gib, 1000 * gib, Level::Yellow),
            (400 * MIB, 1000 * gib, Level::Red),
            (9 * MIB, 100 * MIB, Level::Yellow),
            (MIB, 100 * MIB, Level::Red),
        ] {
            let look = Look { room: Some(Room { free, total }), ..Look::default() };
            assert_eq!(judged(&look).0, level, "{free} of {total}");
        }
        assert_eq!(judged(&Look { schema: Some("version 2".into()), ..Look::default() }).0, Level::Red);
        assert_eq!(Health::of(None).status, Level::Red);
    }

    #[test]
    fn a_database_that_is_slow_to_count_is_still_there() {
        let (level, told) = judged(&Look { is_uncounted: true, ..Look::default() });
        assert_eq!(level, Level::Yellow);
        assert_eq!(told, ["the database answers, but is too slow to count the messages"]);
    }

    #[test]
    fn strangers_hear_no_names_and_no_numbers() {
        let mut look = Look::default();
        look.outbox.dead = 7;
        let told = serde_json::to_string(&Health::of(Some(&look)).for_strangers()).unwrap();
        assert_eq!(told, r#"{"status":"yellow","reasons":[{"level":"yellow","kind":"dead"}]}"#);
    }
}
