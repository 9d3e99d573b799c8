//! The judgement: pure, so that every cause can be tested without waiting for it.

mod not_yet;

use std::time::Duration;

use postroom::{CRASHES_MAX, Cause, Hold, OwnerToken, Queue, Record, State, Timestamp};

use super::answer::Answer;
use super::trouble::Trouble;
use crate::{duration, output};
use not_yet::not_yet;

/// Clocks that differ by more, in microseconds, are worth a word.
pub(super) const CLOCK_TOLERANCE: i64 = 60_000_000;
/// Nobody counts further than this.
pub(super) const LINE_MAX: u64 = 10_000;
/// A worker that is awake and has room claims within this time.
const CLAIM_TIME: Duration = Duration::from_secs(10);
/// Who settled something within this time is at work: with messages in line, a worker does not rest for longer.
const ACTIVE: Duration = Duration::from_secs(15);
/// A worker looks after its store every five minutes.
const MAINTAINED: Duration = Duration::from_secs(330);

/// The message, as far as it matters here.
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
    /// What went wrong last.
    pub(super) cause: Option<Cause>,
    /// Its place is left alone.
    pub(super) hold: Option<Hold>,
    /// By whom, and why.
    pub(super) dismissal: Option<(String, String)>,
    /// Services fetch its topic: no worker takes it.
    pub(super) is_fetched: bool,
}

/// What goes on around it.
pub(super) struct Around {
    /// By the database's clock.
    pub(super) now: Timestamp,
    /// By this machine's.
    pub(super) ours: Timestamp,
    /// So many stand before it in line; one more than [`LINE_MAX`] means more.
    pub(super) ahead: u64,
    /// So many messages of this queue are held under a lease that is not over; not all are counted.
    pub(super) held: u64,
    /// When something of this queue was last claimed, done or tried.
    pub(super) active_at: Option<Timestamp>,
    /// When a worker last looked after this database.
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
        // A handler may take long: who holds something is at work.
        self.held > 0 || self.active_at.is_some_and(|at| self.now.since(at) < ACTIVE)
    }

    fn line(&self) -> String {
        match self.ahead {
            0 => "first in line".to_owned(),
            LINE_MAX.. => format!("behind more than {} others", output::thousands(LINE_MAX)),
            ahead => format!("behind {} other{}", output::thousands(ahead), if ahead == 1 { "" } else { "s" }),
        }
    }
}

impl Seen {
    /// What is to become of it, in time.
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
            dismissal: record
                .dismissal()
                .map(|told| (told.who().to_owned(), output::one_line(told.why().unwrap_or_default()))),
            is_fetched: false,
        }
    }

    /// What went wrong last, and whether its place is held.
    pub(super) fn with(mut self, cause: Option<Cause>, hold: Option<Hold>) -> Self {
        (self.cause, self.hold) = (cause, hold);
        self
    }

    fn error(&self) -> &str {
        self.last_error.as_deref().unwrap_or("no reason was given")
    }

    fn trouble(&self) -> Option<Trouble> {
        self.last_error.as_ref().map(|_| Trouble::of(self.cause))
    }

    /// What to do about its last error.
    fn repair(&self) -> String {
        let party = self.party.as_deref().unwrap_or("the other service");
        self.trouble().map_or_else(|| "Repair what failed.".to_owned(), |trouble| trouble.advice(&self.topic, party))
    }

    fn attempts(&self) -> String {
        let limit = self.max_attempts.map_or_else(String::new, |limit| format!(" of {limit}"));
        format!("{}{limit}", output::count(u64::from(self.attempts), "failed attempt"))
    }
}

/// The one answer.
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
        State::Ready if seen.hold.is_some() => {
            seen.hold.as_ref().map_or_else(|| in_line(seen, around), |hold| held(hold, seen, around))
        }
        State::Ready if seen.visible_at > Some(around.now) => not_yet(seen, around),
        State::Ready => in_line(seen, around),
        State::Seen => Answer::new("only-seen", "It is known by its id, but nobody put it in line to be handled.")
            .since(seen.created_at)
            .next("Nothing, until it arrives again and is put in line.")
            .advice("The program that calls `already_processed` handles it itself, or puts it in line with `enqueue`."),
        _ => Answer::new("handled-elsewhere", "A program handles it outside the queue: no worker takes it.")
            .since(seen.created_at)
            .next("Nothing, until that program marks it as processed or dead.")
            .advice("Look whether the program that marked it as being processed still runs."),
    }
}

fn unreadable(seen: &Seen, why: &str) -> Answer {
    let is = format!("The row cannot be read as a message: {}.", output::one_line(why));
    let next = match seen.state {
        State::Ready | State::Leased => "Each worker that takes it counts a failed attempt, until it is given up.",
        _ => "Nothing: no worker takes it.",
    };
    Answer::new("unreadable", is)
        .since(seen.processed_at)
        .next(next)
        .advice("Repair the row with SQL, or delete it: something other than Postroom wrote it.")
}

fn done(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let by = seen.processed_by.map_or_else(String::new, |by| format!(" by worker {by}"));
    let answer = if seen.has_response { "its answer is stored" } else { "no answer is stored" };
    let advice = match (seen.queue, &seen.party) {
        (Queue::Outbox, Some(party)) => {
            format!("Nothing. If {party} has lost it: `postroom redrive --destination {party} --since TIME`.")
        }
        _ => format!("Nothing. `postroom show {}` tells its story.", seen.id),
    };
    Answer::new("done", format!("It is done{when}{by}; {answer}."))
        .since(seen.processed_at)
        .next("It is deleted when its retention is over.")
        .advice(advice)
}

fn dead(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let (cause, is) = if seen.crashes >= CRASHES_MAX {
        let crashes = output::count(u64::from(seen.crashes), "worker");
        ("dead-after-crashes", format!("It was given up{when}: {crashes} in a row vanished with it in hand."))
    } else {
        ("dead", format!("It was given up{when} after {}: {}.", seen.attempts(), seen.error()))
    };
    let repair = seen.repair();
    let advice =
        format!("{repair} Then `postroom revive {0}`; or `postroom dismiss {0} --why …` if nobody needs it.", seen.id);
    Answer::new(cause, is).since(seen.processed_at).next("Nothing: only `revive` puts it back in line.").advice(advice)
}

fn expired(seen: &Seen, around: &Around) -> Answer {
    let told = |at: Option<Timestamp>| at.map_or_else(|| "an unknown time".to_owned(), |at| around.told(at));
    let last = seen.last_error.as_deref().map_or_else(String::new, |error| format!(" Its last attempt said: {error}."));
    let is = format!("Its time to live ended at {} before it was {}.{last}", told(seen.expires_at), seen.goal());
    Answer::new("expired", is)
        .since(seen.processed_at)
        .next(format!("Nothing: it is never {} any more.", seen.goal()))
        .advice(format!("`postroom revive {} --ttl 1h` gives it a new time to live.", seen.id))
}

fn dismissed(seen: &Seen, around: &Around) -> Answer {
    let when = seen.processed_at.map_or_else(String::new, |at| format!(" at {}", around.told(at)));
    let who = seen.dismissal.as_ref().map_or_else(String::new, |(by, why)| format!(" by {by}: {why}"));
    let before = seen.last_error.as_deref();
    let before = before.map_or_else(String::new, |error| format!(" Its last attempt said: {error}."));
    Answer::new("dismissed", format!("It failed, and was dismissed{when}{who}.{before}"))
        .since(seen.processed_at)
        .next("It is deleted when its retention is over. Until then it is known if it arrives again.")
        .advice(format!("Nothing. If that was a mistake: `postroom revive {}`.", seen.id))
}

fn past_its_time(seen: &Seen, around: &Around) -> Answer {
    let ended = seen.expires_at.map_or_else(String::new, |at| around.told(at));
    Answer::new("past-its-time", format!("Its time to live ended at {ended}, and no worker has marked it yet."))
        .since(seen.expires_at)
        .next(format!(
            "The next worker that claims here, or its upkeep, marks it as expired. It is not {}.",
            seen.goal()
        ))
        .advice(format!("Start a worker (`postroom up`); afterwards `postroom revive {} --ttl 1h`.", seen.id))
}

fn leased(seen: &Seen, around: &Around) -> Answer {
    let until = seen.visible_at.unwrap_or(around.now);
    let who = seen.owner.map_or_else(|| "A worker".to_owned(), |owner| format!("Worker {owner}"));
    if until > around.now {
        let is = format!("{who} works on it, and holds it until {}.", around.told(until));
        return Answer::new("leased", is)
            .since(seen.last_attempt_at)
            .next_at(
                Some(until),
                "Its worker finishes it or renews its lease; if it vanished, another one takes over then.",
            )
            .advice("Nothing, unless it goes on for long: then look what its handler waits for.");
    }
    let is =
        format!("{who} held it until {} and never finished it, and no worker has freed it since.", around.told(until));
    let next = "The next worker that claims here puts it back in line, and counts a crash.";
    let advice = if around.is_active() {
        "Nothing, if it changes within a minute: other messages are being worked on."
    } else {
        "Start a worker (`postroom up`, or the program that handles this queue): none seems to run."
    };
    Answer::new("lease-over", is).since(Some(until)).next(next).advice(advice)
}

/// Its place is left alone.
fn held(hold: &Hold, seen: &Seen, around: &Around) -> Answer {
    let cause = if hold.place.kind() == "service" { "destination-left-alone" } else { "handler-left-alone" };
    let next = format!("One message tries at {}; when it gets through, all others follow.", around.told(hold.tried_at));
    let party = hold.place.to_string();
    Answer::new(cause, format!("It waits with others: {}.", output::waiting(hold)))
        .since(Some(hold.since))
        .next_at(Some(hold.tried_at), next)
        .advice(Trouble::of(hold.cause).advice(&seen.topic, &party))
}

/// Ready, and its time has come.
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
            .next("A service that fetches gets it, after those before it. The node itself leaves this topic alone.")
            .advice(format!("Look whether the service runs that fetches {topic} by `POST /v1/{queue}/claim`."));
    }
    let is_looked_after = around.maintained_at.is_some_and(|at| around.now.since(at) < MAINTAINED);
    let may_be_awake = waited < CLAIM_TIME && is_looked_after;
    if !around.is_active() && !may_be_awake {
        let last = around.active_at.map_or_else(
            || "nothing of this queue was ever claimed, as far as can be seen".to_owned(),
            |at| format!("nothing of this queue was claimed or finished since {}", around.told(at)),
        );
        let is = format!(
            "It has been ready for {}, {}, and no worker is active: {last}.{before}",
            duration::short(waited),
            around.line()
        );
        return Answer::new("no-worker", is)
            .since(Some(since))
            .next("Nothing, until a worker runs on this queue.")
            .advice("Start a worker: `postroom up`, or the program that handles this queue.");
    }
    if seen.crashes > 0 {
        let crashes = output::count(u64::from(seen.crashes), "worker");
        let is = format!(
            "{crashes} vanished with it in hand, so it is tried apart from the others, one such message at a time."
        );
        return Answer::new("claimed-alone", is)
            .since(Some(since))
            .next(format!(
                "A worker takes it when its hands are empty. At {CRASHES_MAX} crashes in a row it is given up."
            ))
            .advice("Look into the log and the memory of the workers: this message may be what ends them.");
    }
    let work = around.active_at.map_or_else(
        || "a worker was here lately".to_owned(),
        |at| format!("its queue was last worked on {} ago", duration::short(around.now.since(at))),
    );
    let is = format!("It has been ready for {}, {}; {work}.{before}", duration::short(waited), around.line());
    Answer::new("in-line", is)
        .since(Some(since))
        .next("A worker takes it when those before it are taken.")
        .advice("Nothing, if the line gets shorter (`postroom top`); if it does not, start a worker, or more of them.")
}

#[cfg(test)]
mod tests;
