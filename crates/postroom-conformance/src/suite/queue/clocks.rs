//! Clocks that are set, and machines that slept.

use std::time::Duration;

use postroom::clock::{JumpState, Timestamp};
use postroom::doctor::Level;
use postroom::message::OwnerToken;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::sqlite::Sqlite;
use postroom::store::Arrival;
use postroom::telemetry::metric;
use postroom::{NewMessage, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, Stage, Testable, eventually};
use crate::script::Script;

cases! { clocks:
    both a_clock_that_is_wrong_for_a_moment_takes_nothing_away [];
    both a_message_is_not_handled_twice_because_a_clock_was_wrong_for_a_moment [];
    both a_clock_that_stays_where_it_jumped_to_is_believed [];
    both what_is_given_during_a_jump_lasts_by_both_clocks [];
    both nothing_is_claimed_early_by_a_clock_that_is_wrong_for_a_moment [];
    both a_clock_that_was_set_back_takes_no_lease_away [];
    both work_goes_on_while_a_clock_is_doubted [];
    both messages_of_a_clock_that_was_ahead_can_be_claimed_again [];
    both many_scheduled_messages_hide_none_that_a_wrong_clock_wrote [];
    both maintenance_of_a_clock_that_was_ahead_is_taken_again [];
    worker a_worker_corrects_the_times_that_a_wrong_clock_gave [];
    both a_jump_is_logged_and_counted_once [];
    sqlite the_doctor_tells_of_a_wrong_clock [];
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEARS: Duration = Duration::from_secs(12 * 365 * 24 * 3600);
/// A jump that is seen again after this is believed.
const CONFIRMED: Duration = Duration::from_secs(10);

/// Sets the clock to the right time again, after this much of it has passed.
fn set_right(h: &Harness, began: Timestamp, passed: Duration) {
    h.clock.set(began.plus(passed));
}

/// Everything that takes something away when a time is over; says how often it did.
async fn take_away(side: &Side<'_>) -> anyhow::Result<u64> {
    let verbs = side.verbs();
    let reaped = verbs.reap(100).await?.total() + verbs.expire(100).await?;
    let purged = verbs.purge(7 * DAY, 100).await?;
    let on_claim = verbs.claim(OwnerToken::new(), LEASE, 100).await?;
    Ok(reaped + purged + on_claim.reaped.total() + on_claim.claimed.len() as u64)
}

async fn a_clock_that_is_wrong_for_a_moment_takes_nothing_away(h: &Harness) -> Verdict {
    for side in h.sides() {
        let began = h.now();
        let done = side.leased("done").await?;
        side.ack(done.clone()).await?;
        let held = side.leased("held").await?;
        let short = NewMessage::new("short", "{}").expires_after(HOUR).due_after(HOUR / 2);
        h.outbox.enqueue(short).await?;

        h.clock.set(began.plus(31 * DAY));
        assert_eq!(take_away(&side).await?, 0, "{}", side.queue);
        h.clock.advance(CONFIRMED - Duration::from_secs(1));
        assert_eq!(take_away(&side).await?, 0, "{}", side.queue);
        set_right(h, began, CONFIRMED);
        assert_eq!(take_away(&side).await?, 0, "{}", side.queue);

        assert_eq!(side.state(done.seq()).await?, State::Done);
        side.ack(held).await?;
        let waiting = h.outbox.queue().list(Filter::all().state(State::Ready)).await?;
        assert!(!waiting.is_empty(), "what lives for an hour is still there");
    }
    Ok(())
}

async fn a_message_is_not_handled_twice_because_a_clock_was_wrong_for_a_moment(h: &Harness) -> Verdict {
    let (side, began) = (h.side(Queue::Inbox), h.now());
    let (before, during) = (Draft::new("before"), Draft::new("during"));
    side.put(&before).await?;
    let lease = side.claim_one().await?;
    side.ack(lease).await?;
    side.put(&during).await?;
    h.clock.set(began.plus(400 * DAY));
    let lease = side.claim_one().await?;
    side.ack(lease).await?;
    assert_eq!(side.verbs().purge(30 * DAY, 100).await?, 0);
    set_right(h, began, Duration::ZERO);
    assert_eq!(side.verbs().purge(30 * DAY, 100).await?, 0);
    for draft in [before, during] {
        let arrival = h.inbox.enqueue(draft.incoming()?).await?;
        assert_eq!(arrival, Arrival::Known { done: true, differs: false }, "{}", draft.topic);
    }
    assert!(side.claim(10).await?.is_empty());
    Ok(())
}

async fn a_clock_that_stays_where_it_jumped_to_is_believed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let held = side.leased("held").await?;
        let began = h.now();
        h.clock.set(began.plus(HOUR));
        assert_eq!(side.verbs().reap(10).await?.total(), 0);
        h.clock.advance(CONFIRMED);
        assert_eq!(side.verbs().reap(10).await?.total(), 1, "nobody renewed that lease for an hour");
        assert_eq!(h.now(), began.plus(HOUR + CONFIRMED));
        assert_eq!(side.state(held.seq()).await?, State::Ready);
        h.clock.advance(HOUR);
        let again = side.claim_one().await?;
        side.ack(again).await?;
    }
    Ok(())
}

/// A machine slept for an hour; others that did not sleep go by the new time at once.
async fn what_is_given_during_a_jump_lasts_by_both_clocks(h: &Harness) -> Verdict {
    for side in h.sides() {
        let before = side.leased("held before").await?;
        let began = h.now();
        let woke = began.plus(HOUR);
        h.clock.set(woke);
        let held = side.leased("held").await?;
        assert_eq!(side.record(held.seq()).await?.locked_until(), Some(woke.plus(LEASE)));
        assert_eq!(side.verbs().extend(std::slice::from_ref(&before), LEASE).await?, [true]);
        assert_eq!(side.record(before.seq()).await?.locked_until(), Some(woke.plus(LEASE)));
        side.ack(before.clone()).await?;
        let done_at = side.record(before.seq()).await?.processed_at();
        assert_eq!(done_at, Some(woke), "what was done now is not old enough to be deleted");
        h.outbox.enqueue(NewMessage::new("short", "{}").expires_after(HOUR / 2)).await?;
        h.clock.advance(CONFIRMED);
        assert_eq!(side.verbs().reap(10).await?.total(), 0);
        assert_eq!(h.outbox.queue().expire(10).await?, 0, "it lives for half an hour yet");
        side.ack(held).await?;
        let rest = h.side(Queue::Outbox).claim_one().await?;
        h.side(Queue::Outbox).ack(rest).await?;
    }
    Ok(())
}

async fn nothing_is_claimed_early_by_a_clock_that_is_wrong_for_a_moment(h: &Harness) -> Verdict {
    for side in h.sides() {
        let began = h.now();
        side.put(&Draft::new("tomorrow").due_at(began.plus(DAY))).await?;
        h.clock.set(began.plus(31 * DAY));
        assert!(side.claim(10).await?.is_empty());
        set_right(h, began, Duration::ZERO);
        assert!(side.claim(10).await?.is_empty());
        h.clock.advance(DAY);
        assert_eq!(side.claim(10).await?.len(), 1);
    }
    Ok(())
}

/// Others may go by the new time already: what they hold by it must not be taken by the old one.
async fn a_clock_that_was_set_back_takes_no_lease_away(h: &Harness) -> Verdict {
    for side in h.sides() {
        let held = side.leased("held").await?;
        let began = h.now();
        h.clock.set(began.minus(HOUR));
        assert_eq!(h.now(), began, "the time does not go back before that is confirmed");
        h.clock.advance(CONFIRMED - Duration::from_secs(1));
        assert_eq!(side.verbs().reap(10).await?.total(), 0);
        let early = side.verbs().claim(OwnerToken::new(), Duration::from_secs(2), 10).await?;
        assert!(early.claimed.is_empty());
        h.clock.advance(Duration::from_secs(1));
        assert_eq!(h.now(), began.minus(HOUR).plus(CONFIRMED));
        side.ack(held).await?;
    }
    Ok(())
}

async fn work_goes_on_while_a_clock_is_doubted(h: &Harness) -> Verdict {
    for side in h.sides() {
        for jump in [31 * DAY, Duration::ZERO] {
            let began = h.now();
            let waiting = side.add("before").await?;
            h.clock.set(if jump.is_zero() { began.minus(DAY) } else { began.plus(jump) });
            side.add("during").await?;
            let claimed = side.claim(10).await?;
            let order: Vec<_> = claimed.iter().map(|claimed| claimed.lease.seq()).collect();
            assert_eq!((order.len(), order[0]), (2, waiting), "in the order they came");
            let leases: Vec<_> = claimed.into_iter().map(|claimed| claimed.lease).collect();
            assert_eq!(side.verbs().ack(leases).await?.applied, 2);
            set_right(h, began, Duration::ZERO);
            side.add("after").await?;
            let after = side.claim_one().await?;
            side.ack(after).await?;
        }
    }
    Ok(())
}

/// Lets the clock be so far ahead that nobody waits for it; then sets it right, and lets that be confirmed.
fn be_right_again(h: &Harness, right: Timestamp) {
    h.clock.set(right);
    let _ = h.now();
    h.clock.advance(CONFIRMED);
}

async fn messages_of_a_clock_that_was_ahead_can_be_claimed_again(h: &Harness) -> Verdict {
    let right = h.now();
    for side in h.sides() {
        h.clock.advance(YEARS);
        let crashed = side.leased("crashed").await?;
        let failed = side.leased("failed").await?;
        side.abandon(failed.clone(), "no stock").await?;
        let waiting = side.add("waiting").await?;
        let asked = side.put(&Draft::new("asked").due_at(right.plus(YEARS))).await?;

        be_right_again(h, right);
        assert!(side.claim(10).await?.is_empty());
        assert_eq!(side.verbs().correct_times().await?, 4);
        let mut claimed: Vec<_> = side.claim(10).await?.iter().map(|claimed| claimed.lease.seq()).collect();
        claimed.sort_unstable();
        assert_eq!(claimed, [failed.seq(), waiting], "{}", side.queue);
        assert_eq!(side.state(crashed.seq()).await?, State::Leased, "its holder may be alive");
        assert_eq!(side.record(asked).await?.visible_at(), Some(right.plus(YEARS)), "that was asked for");
        assert_eq!(side.verbs().correct_times().await?, 0, "once is enough");
        h.clock.advance(LEASE * 3);
        assert_eq!(side.verbs().reap(10).await?.freed, 3, "a lease of 30 seconds is over");
        h.clock.set(right);
        let _ = h.now();
        h.clock.advance(CONFIRMED);
    }
    Ok(())
}

/// It looks through them in steps, also where a step ends among rows of the same time.
async fn many_scheduled_messages_hide_none_that_a_wrong_clock_wrote(h: &Harness) -> Verdict {
    let (side, right) = (h.side(Queue::Outbox), h.now());
    let scheduled = |_| NewMessage::new("scheduled", "{}").due_at(right.plus(DAY));
    h.outbox.enqueue_many((0..1500).map(scheduled)).await?;
    h.clock.advance(YEARS);
    side.add_many("hidden", 1200).await?;
    be_right_again(h, right);
    assert_eq!(side.verbs().correct_times().await?, 1200);
    assert_eq!(side.claim(2000).await?.len(), 1200);
    Ok(())
}

async fn maintenance_of_a_clock_that_was_ahead_is_taken_again(h: &Harness) -> Verdict {
    let (right, interval) = (h.now(), Duration::from_secs(300));
    h.clock.advance(YEARS);
    assert!(h.store.take_maintenance(interval).await?);
    be_right_again(h, right);
    assert!(h.store.take_maintenance(interval).await?, "its next time would have come in years");
    assert!(!h.store.take_maintenance(interval).await?, "and only once");
    h.clock.advance(interval);
    assert!(h.store.take_maintenance(interval).await?);
    Ok(())
}

async fn a_worker_corrects_the_times_that_a_wrong_clock_gave<B: Testable>(stage: &Stage<B>) -> Verdict {
    let right = stage.now();
    stage.clock.advance(YEARS);
    for side in stage.sides() {
        side.add("hidden").await?;
    }
    let harness: &Harness = stage;
    assert!(harness.store.take_maintenance(Duration::from_secs(300)).await?);
    be_right_again(stage, right);
    // The first maintenance may come before the store believes the clock again.
    let options = WorkerOptions::default().maintenance(Duration::from_secs(1));
    for side in stage.sides() {
        let worker = stage.work(side.queue, &Script::succeed(), options.clone());
        let done = || async move {
            stage.advance(Duration::from_secs(1));
            Ok(side.verbs().stats().await?.done == 1)
        };
        eventually("it is handled", done).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn a_jump_is_logged_and_counted_once(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let (side, began) = (h.side(Queue::Outbox), h.now());
    h.clock.set(began.plus(31 * DAY));
    for _ in 0..5 {
        side.claim(1).await?;
    }
    let told = h.setup.logs.saying("the clock jumped; nothing is reaped, expired or deleted because of it yet");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].field("seconds"), told[0].field("way")), (Some("2678400"), Some("ahead")));
    assert_eq!(h.store.clock().jump().map(|jump| jump.state), Some(JumpState::Doubted));
    set_right(h, began, Duration::ZERO);
    for _ in 0..5 {
        side.claim(1).await?;
    }
    assert_eq!(h.setup.logs.saying("the clock came back; its jump was ignored").len(), 1);
    assert!((h.setup.meters.sum(metric::CLOCK_JUMPS) - 1.0).abs() < f64::EPSILON);
    h.clock.advance(Duration::from_secs(60));
    h.clock.set(began);
    side.claim(1).await?;
    h.clock.advance(CONFIRMED);
    side.claim(1).await?;
    side.claim(1).await?;
    assert_eq!(h.setup.logs.saying("the jump of the clock is confirmed; the new time is used").len(), 1);
    assert!((h.setup.meters.sum(metric::CLOCK_JUMPS) - 2.0).abs() < f64::EPSILON);
    Ok(())
}

async fn the_doctor_tells_of_a_wrong_clock(stage: &Stage<Sqlite>) -> Verdict {
    let right = stage.now();
    let level = |report: &postroom::doctor::Report, setting: &str| {
        report.findings.iter().find(|finding| finding.setting == setting).map(|finding| finding.level)
    };
    let before = stage.place.sqlite_options().examine().await?;
    assert_eq!((level(&before, "message times"), level(&before, "clock")), (Some(Level::Ok), None));
    stage.clock.advance(YEARS);
    stage.side(Queue::Inbox).add("hidden").await?;
    be_right_again(stage, right);
    let after = stage.place.sqlite_options().examine().await?;
    assert_eq!((level(&after, "message times"), level(&after, "clock")), (Some(Level::Warning), Some(Level::Notice)));
    Ok(())
}
