//! How long what nobody works on any more is kept, state by state.

use std::time::Duration;

use postroom::operator::{Filter, Operator};
use postroom::queue::{Queue, State};
use postroom::worker::Retention;
use postroom::{ErrorKind, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, Stage, Testable, eventually, readable};
use crate::script::Script;

cases! { retention:
    both each_state_is_deleted_after_its_own_time_and_no_other ["IBX-100"];
    both at_most_so_many_of_a_state_are_deleted ["IBX-101"];
    both what_is_worked_on_is_never_deleted ["IBX-099"];
    both what_was_seen_again_is_kept ["IBX-100"];
    both a_dead_message_past_its_time_to_live_becomes_expired ["SQM-3.4.5"];
    both at_most_so_many_dead_messages_expire [];
    both payloads_of_done_messages_are_dropped_before_their_keys ["IBX-100"];
    worker a_worker_deletes_what_it_was_told_to_and_keeps_the_rest [
        "IBX-098", "IBX-100", "SQM-6.1.1", "SQM-6.2", "SQM-6.4.1"];
    worker a_worker_keeps_dead_letters_unless_told_otherwise ["IBX-099"];
    worker a_worker_expires_dead_messages_past_their_time_to_live ["SQM-6.1.2"];
    worker a_worker_drops_payloads_of_the_inbox_and_keeps_those_of_the_outbox [];
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const ENDED: [State; 4] = [State::Done, State::Dead, State::Expired, State::Dismissed];

/// One row in that state.
async fn ended(h: &Harness, side: &Side<'_>, state: State) -> anyhow::Result<i64> {
    if state == State::Expired {
        let seq = side.put(&Draft::new("expired").ttl(LEASE)).await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().expire(10).await?, 1);
        return Ok(seq);
    }
    let lease = side.leased("a").await?;
    let seq = lease.seq();
    if state == State::Done {
        side.ack(lease).await?;
        return Ok(seq);
    }
    side.fail(lease, "leaves a failure behind").await?;
    if state == State::Dismissed {
        let dismissal = Operator::new("ada")?.because("obsolete")?;
        assert_eq!(side.verbs().dismiss(Filter::one(seq), dismissal).await?, 1);
    }
    Ok(seq)
}

async fn each_state_is_deleted_after_its_own_time_and_no_other(h: &Harness) -> Verdict {
    for side in h.sides() {
        let mut rows = Vec::new();
        for state in ENDED {
            rows.push((state, ended(h, &side, state).await?));
        }
        h.clock.advance(DAY);
        for (state, seq) in rows {
            let since = side.record(seq).await?.processed_at().expect("it has ended");
            let age = h.now().since(since);
            assert_eq!(side.verbs().purge_state(state, age, 100).await?, 0, "exactly as old is not older");
            h.clock.advance(Duration::from_micros(1));
            let before = side.rows().await?;
            assert_eq!(side.verbs().purge_state(state, age, 100).await?, 1, "{state:?}");
            assert!(side.verbs().list(Filter::one(seq)).await?.is_empty());
            assert!(side.verbs().failures(seq).await?.is_empty(), "what went wrong is deleted with it");
            assert_eq!(side.rows().await?, before - 1, "no other state");
        }
    }
    let (inbox, draft) = (h.side(Queue::Inbox), Draft::new("seen"));
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    assert_eq!(inbox.verbs().purge_state(State::Seen, Duration::ZERO, 100).await?, 0);
    h.clock.advance(Duration::from_micros(1));
    for state in ENDED {
        assert_eq!(inbox.verbs().purge_state(state, Duration::ZERO, 100).await?, 0);
    }
    assert_eq!(inbox.verbs().purge_state(State::Seen, Duration::ZERO, 100).await?, 1);
    assert_eq!(h.outbox.queue().purge_state(State::Seen, Duration::ZERO, 100).await?, 0, "nothing is only seen there");
    Ok(())
}

async fn at_most_so_many_of_a_state_are_deleted(h: &Harness) -> Verdict {
    for side in h.sides() {
        for state in ENDED {
            for _ in 0..5 {
                ended(h, &side, state).await?;
            }
            h.clock.advance(LEASE);
            let mut steps = Vec::new();
            for _ in 0..4 {
                steps.push(side.verbs().purge_state(state, Duration::ZERO, 2).await?);
            }
            assert_eq!(steps, [2, 2, 1, 0], "{state:?}");
        }
    }
    Ok(())
}

async fn what_is_worked_on_is_never_deleted(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.leased("leased").await?;
        side.add("ready").await?;
        h.clock.advance(DAY * 1000);
        for state in [State::Ready, State::Leased, State::Processing] {
            let refused = side.verbs().purge_state(state, Duration::ZERO, 100).await;
            assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::InvalidInput));
        }
        for state in ENDED {
            assert_eq!(side.verbs().purge_state(state, Duration::ZERO, 100).await?, 0);
        }
    }
    let draft = Draft::new("processing");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    assert!(h.inbox.mark_processing(&draft.key()?).await?);
    h.clock.advance(DAY);
    assert_eq!(h.inbox.queue().purge_state(State::Seen, Duration::ZERO, 100).await?, 0);
    assert_eq!(h.side(Queue::Inbox).rows().await?, 3);
    Ok(())
}

async fn what_was_seen_again_is_kept(h: &Harness) -> Verdict {
    let drafts = [Draft::new("once"), Draft::new("again")];
    for draft in &drafts {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
    }
    h.clock.advance(DAY);
    assert!(!h.inbox.already_processed(&drafts[1].key()?).await?);
    assert_eq!(h.inbox.queue().purge_state(State::Seen, DAY / 2, 100).await?, 1);
    assert!(h.inbox.get(&drafts[0].key()?).await?.is_none());
    assert!(h.inbox.get(&drafts[1].key()?).await?.is_some());
    Ok(())
}

/// A dead message with that time to live; none lives for ever.
async fn dead(side: &Side<'_>, ttl: Option<Duration>) -> anyhow::Result<i64> {
    side.put(&Draft { ttl, ..Draft::new("a") }).await?;
    let lease = side.claim_one().await?;
    side.fail(lease.clone(), "no such order").await?;
    Ok(lease.seq())
}

async fn a_dead_message_past_its_time_to_live_becomes_expired(h: &Harness) -> Verdict {
    for side in h.sides() {
        let [over, dismissed] = [dead(&side, Some(LEASE)).await?, dead(&side, Some(LEASE)).await?];
        let [later, ever] = [dead(&side, Some(DAY)).await?, dead(&side, None).await?];
        assert_eq!(side.verbs().dismiss(Filter::one(dismissed), Operator::new("ada")?.because("x")?).await?, 1);
        h.clock.advance(LEASE - Duration::from_micros(1));
        assert_eq!(side.verbs().expire_dead(100).await?, 0, "its time is not over");
        h.clock.advance(Duration::from_micros(1));
        assert_eq!(side.verbs().expire(100).await?, 0, "nothing waits");
        assert_eq!(side.verbs().expire_dead(100).await?, 1);
        let record = side.record(over).await?;
        assert_eq!((record.state(), record.processed_at()), (State::Expired, Some(h.now())));
        let history = (record.last_error(), record.attempts(), side.verbs().failures(over).await?.len());
        assert_eq!(history, (Some("no such order"), 1, 1), "what went wrong stays with it");
        for (seq, state) in [(later, State::Dead), (ever, State::Dead), (dismissed, State::Dismissed)] {
            assert_eq!(side.state(seq).await?, state);
        }
        assert_eq!(side.verbs().revive(Filter::one(over), None).await?, 0, "it needs a new time to live");
        assert_eq!(side.verbs().revive(Filter::one(over), Some(LEASE)).await?, 1);
    }
    Ok(())
}

async fn at_most_so_many_dead_messages_expire(h: &Harness) -> Verdict {
    for side in h.sides() {
        for _ in 0..5 {
            dead(&side, Some(LEASE)).await?;
        }
        h.clock.advance(LEASE);
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(side.verbs().expire_dead(2).await?);
        }
        assert_eq!(steps, [2, 2, 1, 0]);
    }
    Ok(())
}

/// One row in each state that rows end in, in both queues, and one that was only seen.
async fn one_of_each(h: &Harness) -> Verdict {
    for side in h.sides() {
        for state in ENDED {
            ended(h, &side, state).await?;
        }
    }
    assert!(!h.inbox.already_processed(&Draft::new("seen").key()?).await?);
    Ok(())
}

/// How many are left: done, dead, expired, dismissed and seen.
async fn left(h: &Harness) -> anyhow::Result<[[u64; 5]; 2]> {
    let mut left = [[0; 5]; 2];
    for (at, side) in h.sides().into_iter().enumerate() {
        let stats = side.verbs().stats().await?;
        left[at] = [stats.done, stats.dead, stats.expired, stats.dismissed, stats.seen];
    }
    Ok(left)
}

async fn a_worker_deletes_what_it_was_told_to_and_keeps_the_rest<B: Testable>(stage: &Stage<B>) -> Verdict {
    one_of_each(stage).await?;
    let day = |days| Some(DAY * days);
    let retention = Retention::default().outbox_done(DAY).inbox_done(DAY * 6);
    let retention = retention.dead(day(2)).expired(day(3)).dismissed(day(4)).seen(DAY * 5);
    let steps = [
        [[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
        [[0, 0, 1, 1, 0], [1, 0, 1, 1, 1]],
        [[0, 0, 0, 1, 0], [1, 0, 0, 1, 1]],
        [[0, 0, 0, 0, 0], [1, 0, 0, 0, 1]],
        [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0]],
        [[0; 5]; 2],
    ];
    for (days, expected) in (1..).zip(steps) {
        stage.clock.advance(DAY + if days == 1 { LEASE } else { Duration::ZERO });
        let options = WorkerOptions::default().retention(retention);
        let worker = stage.work(Queue::Outbox, &Script::succeed(), options);
        let harness: &Harness = stage;
        let is_so = || async move { Ok(left(harness).await? == expected) };
        eventually(&format!("after {days} days the worker has deleted what is older"), is_so).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn a_worker_keeps_dead_letters_unless_told_otherwise<B: Testable>(stage: &Stage<B>) -> Verdict {
    one_of_each(stage).await?;
    stage.clock.advance(DAY * 1000);
    let worker = stage.work(Queue::Outbox, &Script::succeed(), WorkerOptions::default());
    let harness: &Harness = stage;
    let is_so = || async move { Ok(left(harness).await? == [[0, 1, 1, 0, 0]; 2]) };
    eventually("the worker deletes all but dead and expired messages", is_so).await?;
    worker.stop().await
}

async fn a_worker_expires_dead_messages_past_their_time_to_live<B: Testable>(stage: &Stage<B>) -> Verdict {
    for (side, worked_on) in stage.sides().into_iter().zip([Queue::Inbox, Queue::Outbox]) {
        let seq = dead(&side, Some(LEASE)).await?;
        stage.clock.advance(DAY);
        let worker = stage.work(worked_on, &Script::succeed(), WorkerOptions::default());
        let is_so = || async move { Ok(side.state(seq).await? == State::Expired) };
        eventually("the worker expires it", is_so).await?;
        worker.stop().await?;
    }
    Ok(())
}

/// A message with that payload that is done, and its number.
async fn done(side: &Side<'_>, payload: &str) -> anyhow::Result<(Draft, i64)> {
    let draft = Draft::new("a").payload(payload);
    side.put(&draft).await?;
    let lease = side.claim_one().await?;
    let seq = lease.seq();
    side.ack(lease).await?;
    Ok((draft, seq))
}

/// What is stored of a payload: its length, and whether it was dropped.
async fn stored(side: &Side<'_>, seq: i64) -> anyhow::Result<(usize, bool)> {
    let record = side.record(seq).await?;
    let message = readable(&record)?;
    Ok((message.payload.len(), message.payload_dropped))
}

async fn payloads_of_done_messages_are_dropped_before_their_keys(h: &Harness) -> Verdict {
    let (inbox, large) = (h.side(Queue::Inbox), "x".repeat(5000));
    let (draft, first) = done(&inbox, &large).await?;
    let (_, second) = done(&inbox, &large).await?;
    let (_, small) = done(&inbox, &large[..1000]).await?;
    inbox.put(&Draft::new("a").payload(&large)).await?;
    let lease = inbox.claim_one().await?;
    let dead = lease.seq();
    inbox.fail(lease, "no such order").await?;
    h.clock.advance(DAY * 2);
    let (_, recent) = done(&inbox, &large).await?;
    let waiting = inbox.put(&Draft::new("a").payload(&large)).await?;
    let mut dropped = 0;
    while let Some(more) = inbox.verbs().drop_payloads(DAY, 1).await? {
        dropped += more;
    }
    assert_eq!(dropped, 2);
    for (seq, expected) in [
        (first, (0, true)),
        (second, (0, true)),
        (small, (1000, false)),
        (dead, (5000, false)),
        (recent, (5000, false)),
        (waiting, (5000, false)),
    ] {
        assert_eq!(stored(&inbox, seq).await?, expected);
    }
    assert!(h.inbox.already_processed(&draft.key()?).await?, "it is recognised");
    assert_eq!(inbox.put(&draft).await?, first, "a duplicate changes nothing");
    assert_eq!(stored(&inbox, first).await?, (0, true));
    let refused = h.outbox.queue().drop_payloads(DAY, 1).await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::InvalidInput));
    Ok(())
}

async fn a_worker_drops_payloads_of_the_inbox_and_keeps_those_of_the_outbox<B: Testable>(stage: &Stage<B>) -> Verdict {
    let large = "x".repeat(5000);
    let (outbox, inbox) = (stage.side(Queue::Outbox), stage.side(Queue::Inbox));
    let (out, inn) = (done(&outbox, &large).await?.1, done(&inbox, &large).await?.1);
    stage.clock.advance(DAY * 8);
    let retention = Retention::default().outbox_done(DAY * 30);
    let worker = stage.work(Queue::Outbox, &Script::succeed(), WorkerOptions::default().retention(retention));
    let inbox = &inbox;
    eventually("it is dropped", || async move { Ok(stored(inbox, inn).await? == (0, true)) }).await?;
    worker.stop().await?;
    assert_eq!(stored(&outbox, out).await?, (5000, false));
    Ok(())
}
