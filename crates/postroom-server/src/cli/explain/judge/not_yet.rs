//! A message that is not due yet.

use std::time::Duration;

use postroom::clock::Timestamp;
use postroom::queue::CRASHES_MAX;

use super::{Around, CLOCK_TOLERANCE, Seen};
use crate::cli::explain::answer::Answer;
use crate::cli::explain::trouble::Trouble;
use crate::output;

/// Ready but not due.
pub(super) fn not_yet(seen: &Seen, around: &Around) -> Answer {
    let at = seen.visible_at.unwrap_or(around.now);
    let is_held_by = |time: Option<Timestamp>| time == Some(at);
    if is_held_by(seen.created_at) && at.since(around.now) > Duration::from_secs(60) {
        let is = format!("Its creation time is in the future by the clock of the database: {}.", around.told(at));
        return Answer::new("clock", is)
            .since(seen.created_at)
            .next_at(Some(at), "A worker corrects the time when it starts, and when the clock of the database changes.")
            .advice("Synchronise the clocks (NTP): one was ahead when the message was stored, or was set back since.");
    }
    if is_held_by(seen.next_attempt_at) && seen.last_error.is_some() {
        return after_failure(seen, at, around);
    }
    let ahead = around.clock_ahead();
    if ahead < -CLOCK_TOLERANCE && at <= around.ours {
        let is = format!(
            "It is due by the clock of this machine, but the clock of the database is {} s behind: it is due at {}.",
            ahead.abs() / 1_000_000,
            around.told(at)
        );
        return Answer::new("clock", is)
            .since(seen.created_at)
            .next_at(Some(at), "A worker claims it when the clock of the database reaches that time.")
            .advice("Synchronise the clocks of both machines (NTP); `postroom doctor` shows the difference.");
    }
    Answer::new("not-due", format!("It is due at {}.", around.told(at)))
        .since(seen.created_at)
        .next_at(Some(at), "A worker claims it then.")
        .advice("Nothing: its sender asked for this time.")
}

fn after_failure(seen: &Seen, at: Timestamp, around: &Around) -> Answer {
    let trouble = seen.trouble().unwrap_or(Trouble::Handler);
    let error = seen.error();
    let is = match trouble {
        Trouble::Crash => format!(
            "{} in a row died while handling it. It is paused, and is then tried separately.",
            output::count(u64::from(seen.crashes), "worker")
        ),
        Trouble::Outage => "Its lease expired while the database was unavailable.".to_owned(),
        Trouble::Handler => format!("Its last attempt failed: {error}. {} so far.", seen.attempts()),
        _ => format!("It waits: {error}. This used no attempt."),
    };
    let next = match trouble {
        Trouble::Crash => format!(
            "A worker claims it at {}, separately from its other work. After {CRASHES_MAX} crashes it is dead.",
            around.told(at)
        ),
        _ => format!("It is retried at {}.", around.told(at)),
    };
    Answer::new(trouble.cause(), is).since(seen.last_attempt_at).next_at(Some(at), next).advice(seen.repair())
}
