//! A message whose time has not come.

use std::time::Duration;

use postroom::{CRASHES_MAX, Timestamp};

use super::{Around, CLOCK_TOLERANCE, Seen};
use crate::cli::explain::answer::Answer;
use crate::cli::explain::trouble::Trouble;
use crate::output;

/// Ready, and its time has not come.
pub(super) fn not_yet(seen: &Seen, around: &Around) -> Answer {
    let at = seen.visible_at.unwrap_or(around.now);
    let is_held_by = |time: Option<Timestamp>| time == Some(at);
    if is_held_by(seen.created_at) && at.since(around.now) > Duration::from_secs(60) {
        let is =
            format!("It was stored under a time that has not come yet by the database's clock: {}.", around.told(at));
        return Answer::new("clock", is)
            .since(seen.created_at)
            .next_at(Some(at), "A worker corrects its time when it starts, and after the database's clock was set.")
            .advice("Set the clocks right (NTP): one was ahead when it was stored, or the database's was set back.");
    }
    if is_held_by(seen.next_attempt_at) && seen.last_error.is_some() {
        return after_failure(seen, at, around);
    }
    let ahead = around.clock_ahead();
    if ahead < -CLOCK_TOLERANCE && at <= around.ours {
        let is = format!(
            "It is due by this machine's clock, but not by the database's, which is {} s behind: not before {}.",
            ahead.abs() / 1_000_000,
            around.told(at)
        );
        return Answer::new("clock", is)
            .since(seen.created_at)
            .next_at(Some(at), "A worker takes it when the database's clock is there.")
            .advice("Set the clocks right (NTP) on both machines; `postroom doctor` shows the difference.");
    }
    Answer::new("not-due", format!("It is not due before {}.", around.told(at)))
        .since(seen.created_at)
        .next_at(Some(at), "A worker takes it then.")
        .advice("Nothing: whoever sent it asked for this time.")
}

fn after_failure(seen: &Seen, at: Timestamp, around: &Around) -> Answer {
    let trouble = seen.trouble().unwrap_or(Trouble::Handler);
    let error = seen.error();
    let is = match trouble {
        Trouble::Crash => format!(
            "{} in a row vanished with it in hand; it pauses now, and is then tried apart from the others.",
            output::count(u64::from(seen.crashes), "worker")
        ),
        Trouble::Outage => "Its lease ran out while the database was away.".to_owned(),
        Trouble::Handler => format!("Its last attempt failed: {error}. {} so far.", seen.attempts()),
        _ => format!("It waits: {error}. No attempt was spent."),
    };
    let next = match trouble {
        Trouble::Crash => format!(
            "A worker takes it at {}, beside its other work. At {CRASHES_MAX} crashes in a row it is dead.",
            around.told(at)
        ),
        _ => format!("It is tried again at {}.", around.told(at)),
    };
    Answer::new(trouble.cause(), is).since(seen.last_attempt_at).next_at(Some(at), next).advice(seen.repair())
}
