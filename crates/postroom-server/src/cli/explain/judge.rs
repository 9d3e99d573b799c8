//! Finds the cause. The functions are pure, so that tests can cover every cause.

mod in_lane;
mod not_yet;

use std::time::Duration;

use postroom::clock::Timestamp;
use postroom::message::OwnerToken;
use postroom::operator::{Hold, LanePlace, Record, Rule};
use postroom::queue::{CRASHES_MAX, Cause, Queue, State};

use super::answer::Answer;
use super::trouble::Trouble;
use crate::{duration, output};
use in_lane::{blocking, in_lane};
use not_yet::not_yet;

/// A larger clock difference, in microseconds, is reported.
pub(super) const CLOCK_TOLERANCE: i64 = 60_000_000;
/// The count of messages ahead stops here.
pub(super) const LINE_MAX: u64 = 10_000;
/// A running worker with free capacity claims a ready message within this time.
const CLAIM_TIME: Duration = Duration::from_secs(10);
/// A queue counts as active for this long after a claim or an ack.
const ACTIVE: Duration = Duration::from_secs(15);
/// A worker runs maintenance every five minutes.
const MAINTAINED: Duration = Duration::from_secs(330);

/// The relevant facts about the message.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) queue: Queue,
    pub(super) id: String,
    pub(super) state: State,
    pub(super) unreadable: Option<String>,
    pub(super) topic: String,
    pub(super) party: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) visible_at: Option<Timestamp>,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_attempt_at: Option<Timestamp>,
    pub(super) processed_at: Option<Timestamp>,
    pub(super) processed_by: Option<OwnerToken>,
    pub(super) owner: Option<OwnerToken>,
    pub(super) attempts: u32,
    pub(super) crashes: u32,
    pub(super) max_attempts: Option<u32>,
    pub(super) last_error: Option<String>,
    pub(super) has_response: bool,
    /// The cause of the last failure.
    pub(super) cause: Option<Cause>,
    /// The open circuit breaker of its place, if any.
    pub(super) hold: Option<Hold>,
    /// The pause or the limit of its place, or of the queue.
    pub(super) rule: Option<Rule>,
    /// Where it stands in its lane, if it is in one.
    pub(super) lane: Option<LanePlace>,
    /// Who dismissed it, and why.
    pub(super) dismissal: Option<(String, String)>,
    /// Services fetch its topic, so no worker claims it.
    pub(super) is_fetched: bool,
}

/// The activity around the message.
pub(super) struct Around {
    /// By the database's clock.
    pub(super) now: Timestamp,
    /// By this machine's.
    pub(super) ours: Timestamp,
    /// The number of messages ahead of it; one more than [`LINE_MAX`] means more.
    pub(super) ahead: u64,
    /// The number of messages of this queue with a valid lease, up to a limit.
    pub(super) held: u64,
    /// When a message of this queue was last claimed, done or tried.
    pub(super) active_at: Option<Timestamp>,
    /// When a worker last ran maintenance on this database.
    pub(super) maintained_at: Option<Timestamp>,
}

impl Around {
    /// Microseconds by which the database's clock is ahead of ours.
    pub(super) fn clock_ahead(&self) -> i64 {
        self.now.as_micros().saturating_sub(self.ours.as_micros())
    }

    fn told(&self, at: Timestamp) -> String {
        output::moment_from(at, self.now)
    }

    fn is_active(&self) -> bool {
        // A handler may take long, so a valid lease counts as activity.
        self.held > 0 || self.active_at.is_some_and(|at| self.now.since(at) < ACTIVE)
    }

    fn line(&self) -> String {
        match self.ahead {
            0 => "first in the queue".to_owned(),
            LINE_MAX.. => format!("behind more than {} others", output::thousands(LINE_MAX)),
            ahead => format!("behind {} other{}", output::thousands(ahead), if ahead == 1 { "" } else { "s" }),
        }
    }
}

impl Seen {
    /// What should happen to it before it expires.
    fn goal(&self) -> &'static str {
        if self.queue == Queue::Outbox && self.party.is_some() { "sent" } else { "handled" }
    }

    pub(super) fn of(queue: Queue, id: String, record: &Record) -> Self {
        let message = record.message().ok();
        let party = message.and_then(|message| message.source().or(message.destination()));
        Self {
            queue,
            id,
            state: record.state(),
            unreadable: record.message().err().map(str::to_owned),
            topic: message.map(|message| message.topic.clone()).unwrap_or_default(),
            party: party.map(str::to_owned),
            created_at: message.map(|message| message.created_at),
            visible_at: record.visible_at(),
            next_attempt_at: record.next_attempt_at(),
            expires_at: record.expires_at(),
            last_attempt_at: record.last_attempt_at(),
            processed_at: record.processed_at(),
            processed_by: record.processed_by(),
            owner: record.owner(),
            attempts: record.attempts(),
            crashes: record.crashes(),
            max_attempts: message.and_then(|message| message.max_attempts),
            last_error: record.last_error().map(output::one_line),
            has_response: record.response().is_some(),
            cause: None,
            hold: None,
            rule: None,
            lane: None,
            dismissal: record
                .dismissal()
                .map(|told| (told.who().to_owned(), output::one_line(told.why().unwrap_or_default()))),
            is_fetched: false,
        }
    }

    /// Adds the cause of the last failure and the hold of its place.
    pub(super) fn with(mut self, cause: Option<Cause>, hold: Option<Hold>) -> Self {
        (self.cause, self.hold) = (cause, hold);
        self
    }

    fn error(&self) -> &str {
        self.last_error.as_deref().unwrap_or("no error was recorded")
    }

    fn trouble(&self) -> Option<Trouble> {
        self.last_error.as_ref().map(|_| Trouble::of(self.cause))
    }

    /// What to do about its last error.
    fn repair(&self) -> String {
        let party = self.party.as_deref().unwrap_or("the other service");
        self.trouble()
            .map_or_else(|| "Fix the cause of the failure.".to_owned(), |trouble| trouble.advice(&self.topic, party))
    }

    fn attempts(&self) -> String {
        let limit = self.max_attempts.map_or_else(String::new, |limit| format!(" of {limit}"));
        format!("{}{limit}", output::count(u64::from(self.attempts), "failed attempt"))
    }
}

/// Finds the answer.
pub(super) fn judge(seen: &Seen, around: &Around) -> Answer {
    if let Some(why) = &seen.unreadable {
        return unreadable(seen, why);
    }
    match seen.state {
        State::Done => done(seen, around),
        State::Dead => dead(seen, around),
        State::Expired => expired(seen, around),
        State::Dismissed => dismissed(seen, around),
        State::Leased => leased(seen, around),
        State::Ready if seen.expires_at.is_some_and(|at| at <= around.now) => past_its_time(seen, around),
        State::Ready if seen.rule.as_ref().is_some_and(|rule| rule.paused.is_some()) => {
            seen.rule.as_ref().map_or_else(|| in_line(seen, around), |rule| paused(rule, seen))
        }
        State::Ready if seen.lane.as_ref().is_some_and(|place| place.ahead > 0) => {
            seen.lane.as_ref().map_or_else(|| in_line(seen, around), |place| in_lane(place, seen, around))
        }
        State::Ready if seen.hold.is_some() => {
            seen.hold.as_ref().map_or_else(|| in_line(seen, around), |hold| held(hold, seen, around))
        }
        State::Ready if seen.visible_at > Some(around.now) => not_yet(seen, around),
        State::Ready => in_line(seen, around),
        State::Seen => Answer::new("only-seen", "The inbox has recorded its id, but no program has enqueued it.")
            .since(seen.created_at)
            .next("Nothing happens until it arrives again and is enqueued.")
            .advice("The program that calls `already_processed` must handle it itself, or enqueue it with `enqueue`."),
        _ => Answer::new("handled-elsewhere", "A program handles it outside the queue, so no worker claims it.")
            .since(seen.created_at)
            .next("Nothing happens until that program marks it as processed or dead.")
            .advice("Check whether the program that marked it as being processed still runs."),
    }
}

fn unreadable(seen: &Seen, why: &str) -> Answer {
    let is = format!("The row cannot be read as a message: {}.", output::one_line(why));
    let next = match seen.state {
        State::Ready | State::Leased => "Every claim counts as a failed attempt, until the message is dead.",
        _ => "Nothing happens: no worker claims it.",
    };
    Answer::new("unreadable", is)
        .since(seen.processed_at)
        .next(next)
        .advice("Fix the row with SQL, or delete it. A program other than Postroom wrote it.")
}

fn done(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let by = seen.processed_by.map_or_else(String::new, |by| format!(" by worker {by}"));
    let answer = if seen.has_response { "its answer is stored" } else { "no answer is stored" };
    let advice = match (seen.queue, &seen.party) {
        (Queue::Outbox, Some(party)) => {
            format!("Nothing. If {party} has lost it, run `postroom redrive --destination {party} --since TIME`.")
        }
        _ => format!("Nothing. `postroom show {}` shows its details.", seen.id),
    };
    Answer::new("done", format!("It is done{when}{by}; {answer}."))
        .since(seen.processed_at)
        .next("It is deleted when its retention time ends.")
        .advice(advice)
}

fn dead(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let (cause, is) = if seen.crashes >= CRASHES_MAX {
        let crashes = output::count(u64::from(seen.crashes), "worker");
        ("dead-after-crashes", format!("It became dead{when}: {crashes} in a row died while handling it."))
    } else {
        ("dead", format!("It became dead{when} after {}: {}.", seen.attempts(), seen.error()))
    };
    let repair = seen.repair();
    let advice =
        format!("{repair} Then run `postroom revive {0}`, or `postroom dismiss {0} --why …` to discard it.", seen.id);
    let next = format!("Nothing happens until an operator requeues it.{}", blocking(seen));
    Answer::new(cause, is).since(seen.processed_at).next(next).advice(advice)
}

fn expired(seen: &Seen, around: &Around) -> Answer {
    let told = |at: Option<Timestamp>| at.map_or_else(|| "an unknown time".to_owned(), |at| around.told(at));
    let last = seen.last_error.as_deref().map_or_else(String::new, |error| format!(" Its last error was: {error}."));
    let is = format!("Its time to live ended at {} before it was {}.{last}", told(seen.expires_at), seen.goal());
    Answer::new("expired", is)
        .since(seen.processed_at)
        .next(format!("Nothing happens: it will not be {}.", seen.goal()))
        .advice(format!("`postroom revive {} --ttl 1h` requeues it with a new time to live.", seen.id))
}

fn dismissed(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let who = seen.dismissal.as_ref().map_or_else(String::new, |(by, why)| format!(" by {by}: {why}"));
    let before = seen.last_error.as_deref();
    let before = before.map_or_else(String::new, |error| format!(" Its last error was: {error}."));
    Answer::new("dismissed", format!("It was dismissed{when}{who}.{before}"))
        .since(seen.processed_at)
        .next("It is deleted when its retention time ends. Until then its duplicates are recognised.")
        .advice(format!("Nothing. If it was a mistake, run `postroom revive {}`.", seen.id))
}

fn past_its_time(seen: &Seen, around: &Around) -> Answer {
    let ended = seen.expires_at.map_or_else(String::new, |at| around.told(at));
    Answer::new(
        "past-its-time",
        format!("Its time to live ended at {ended}, but no worker has marked it as expired yet."),
    )
    .since(seen.expires_at)
    .next(format!("The next claim or maintenance run of a worker marks it as expired. It will not be {}.", seen.goal()))
    .advice(format!("Start a worker (`postroom up`), then run `postroom revive {} --ttl 1h`.", seen.id))
}

fn leased(seen: &Seen, around: &Around) -> Answer {
    let until = seen.visible_at.unwrap_or(around.now);
    let who = seen.owner.map_or_else(|| "A worker".to_owned(), |owner| format!("Worker {owner}"));
    if until > around.now {
        let is = format!("{who} is handling it, with a lease until {}.", around.told(until));
        return Answer::new("leased", is)
            .since(seen.last_attempt_at)
            .next_at(
                Some(until),
                "The worker acks it or renews its lease. If the worker has died, another one claims it then.",
            )
            .advice("Nothing, unless it takes too long: then check what its handler is waiting for.");
    }
    let until_when = around.told(until);
    let is = format!("{who} had a lease until {until_when} but never acked it, and no worker has requeued it yet.");
    let next = "The next worker that claims from this queue requeues it and counts a crash.";
    let advice = if around.is_active() {
        "Wait a minute: workers are active on this queue."
    } else {
        "Start a worker (`postroom up`, or the program that handles this queue); none seems to be running."
    };
    Answer::new("lease-over", is).since(Some(until)).next(next).advice(advice)
}

/// The circuit breaker of its place is open.
fn held(hold: &Hold, seen: &Seen, around: &Around) -> Answer {
    let cause = if hold.place.kind() == "service" { "destination-left-alone" } else { "handler-left-alone" };
    let next = format!("One message is tried at {}. If it succeeds, the others follow.", around.told(hold.tried_at));
    let party = hold.place.to_string();
    Answer::new(cause, format!("The circuit breaker is open: {}.", output::waiting(hold)))
        .since(Some(hold.since))
        .next_at(Some(hold.tried_at), next)
        .advice(Trouble::of(hold.cause).advice(&seen.topic, &party))
}

/// An operator paused it.
fn paused(rule: &Rule, seen: &Seen) -> Answer {
    let which = match (rule.scope.kind(), rule.scope.name()) {
        ("topic", name) => format!("--topic {name}"),
        ("service", name) => format!("--destination {name}"),
        ("lane", name) => format!("--lane {name}"),
        ("lanes", name) => format!("--lanes-of {name}"),
        _ => format!("--all --queue {}", seen.queue),
    };
    let is = output::rule(seen.queue, rule);
    let is = is.split_once("; ").map_or(is.as_str(), |(is, _)| is);
    Answer::new("paused", format!("{}{}.", is[..1].to_uppercase(), &is[1..]))
        .since(rule.paused.as_ref().map(|pause| pause.since))
        .next("It waits until an operator resumes it, and spends no attempt.")
        .advice(format!("If the reason is gone: `postroom resume {which}`."))
}

/// Ready and due.
fn in_line(seen: &Seen, around: &Around) -> Answer {
    let since = seen.visible_at.unwrap_or(around.now);
    let waited = around.now.since(since);
    let before = seen.last_error.as_deref();
    let before = before.map_or_else(String::new, |error| format!(" Its last attempt failed: {error}."));
    if seen.is_fetched {
        let (topic, queue) = (&seen.topic, seen.queue);
        let is = format!("It has been ready for {}, and a service must fetch it.{before}", duration::short(waited));
        return Answer::new("not-fetched", is)
            .since(Some(since))
            .next(
                "A service that fetches this topic gets it, after the messages ahead of it. The node does not post it.",
            )
            .advice(format!("Check that the service that fetches {topic} with `POST /v1/{queue}/claim` is running."));
    }
    let is_looked_after = around.maintained_at.is_some_and(|at| around.now.since(at) < MAINTAINED);
    let may_be_awake = waited < CLAIM_TIME && is_looked_after;
    if !around.is_active() && !may_be_awake {
        let last = around.active_at.map_or_else(
            || "there is no sign that a message of this queue was ever claimed".to_owned(),
            |at| format!("no message of this queue was claimed or acked since {}", around.told(at)),
        );
        let is = format!(
            "It has been ready for {}, {}, and no worker is active: {last}.{before}",
            duration::short(waited),
            around.line()
        );
        return Answer::new("no-worker", is)
            .since(Some(since))
            .next("Nothing happens until a worker runs on this queue.")
            .advice("Start a worker: `postroom up`, or the program that handles this queue.");
    }
    if seen.crashes > 0 {
        let crashes = output::count(u64::from(seen.crashes), "worker");
        let is = format!("{crashes} died while handling it, so it is tried separately, one suspect message at a time.");
        return Answer::new("claimed-alone", is)
            .since(Some(since))
            .next(format!(
                "A worker claims it when nothing else is in progress. After {CRASHES_MAX} crashes in a row it is dead."
            ))
            .advice("Check the logs and the memory use of the workers: this message may make them crash.");
    }
    let work = around.active_at.map_or_else(
        || "a worker was active recently".to_owned(),
        |at| format!("the last activity in its queue was {} ago", duration::short(around.now.since(at))),
    );
    let is = format!("It has been ready for {}, {}; {work}.{before}", duration::short(waited), around.line());
    Answer::new("in-line", is)
        .since(Some(since))
        .next("A worker claims it after the messages ahead of it.")
        .advice("Nothing, if the queue gets shorter (see `postroom top`). Otherwise start more workers.")
}

#[cfg(test)]
mod tests;
