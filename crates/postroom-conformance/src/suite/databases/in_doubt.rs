//! A COMMIT without an answer: it was carried out or not, and the caller learns which.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::operator::Operator;
use postroom::queue::{Cancelled, Queue, Settle, State};
use postroom::store::Arrival;
use postroom::{Ctx, HandlerResult, Handlers, Inbox, Message, NewMessage, Outbox, Worker, WorkerOptions};
use postroom_testbed::Proxy;

use crate::by_wire::{ByWire, Effects};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, eventually};
use crate::script::Running;
use crate::servers;

cases! { in_doubt:
    server an_enqueue_is_reported_as_stored ["OBX-003"];
    server messages_of_a_batch_are_told_from_duplicates [];
    server a_hundred_enqueues_are_each_stored_once [];
    server a_settle_is_reported_as_applied ["OBX-033", "IBX-045"];
    server an_ack_of_what_was_taken_back_is_lost [];
    server a_cancel_is_reported_and_recorded_once [];
    server a_claim_comes_back_under_its_lease ["OBX-017", "IBX-030"];
    server an_arrival_is_the_first [];
    server an_attempt_by_hand_is_counted_once [];
    server a_handler_that_was_committed_is_not_run_again ["OBX-058", "IBX-077"];
    server a_handler_that_was_not_committed_is_run_again ["OBX-058", "IBX-077"];
}

async fn an_enqueue_is_reported_as_stored<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    proxy.cut_next_commits(1);
    let stored = Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    assert_eq!((stored.is_duplicate(), proxy.cuts()), (false, 1));
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 1);
    Ok(())
}

async fn messages_of_a_batch_are_told_from_duplicates<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let outbox = Outbox::new(store);
    let messages: Vec<NewMessage> = (0..5).map(|_| NewMessage::new("a", "")).collect();
    outbox.enqueue(messages[2].clone()).await?;
    stage.clock.advance(Duration::from_secs(1));
    proxy.cut_next_commits(1);
    let stored = outbox.enqueue_many(messages).await?;
    let duplicates: Vec<bool> = stored.iter().map(|stored| stored.is_duplicate()).collect();
    assert_eq!((duplicates, proxy.cuts()), (vec![false, false, true, false, false], 1));
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 5);
    Ok(())
}

async fn a_hundred_enqueues_are_each_stored_once<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let outbox = Outbox::new(store);
    for n in 0..100 {
        if n % 2 == 0 {
            proxy.cut_next_commits(1);
        } else {
            proxy.lose_next_commits(1);
        }
        assert!(outbox.enqueue(NewMessage::new("a", "")).await?.is_new());
    }
    assert_eq!((proxy.cuts(), stage.side(Queue::Outbox).rows().await?), (100, 100));
    Ok(())
}

async fn a_settle_is_reported_as_applied<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store));
    for (side, verbs) in stage.sides().into_iter().zip([outbox.queue(), inbox.queue()]) {
        let second = Duration::from_secs(1);
        let ends: [fn(postroom::queue::Lease) -> postroom::Result<Settle>; 4] = [
            |lease| Ok(Settle::ack(lease)),
            |lease| Settle::abandon(lease, Duration::from_secs(60), "later"),
            |lease| Ok(Settle::fail(lease, "never")),
            |lease| Ok(Settle::release(lease)),
        ];
        for (end, state) in ends.into_iter().zip([State::Done, State::Ready, State::Dead, State::Ready]) {
            let lease = side.leased("a").await?;
            let seq = lease.seq();
            proxy.cut_next_commits(1);
            let settled = verbs.settle(vec![end(lease)?]).await?;
            assert_eq!((settled.applied, settled.lost), (1, 0));
            assert_eq!(side.state(seq).await?, state);
            stage.clock.advance(second);
        }
    }
    assert_eq!(proxy.cuts(), 8);
    Ok(())
}

/// Its lease ran out, and nobody has claimed it since: the row has the claim number of the lease, and is not done.
async fn an_ack_of_what_was_taken_back_is_lost<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store));
    for (side, verbs) in stage.sides().into_iter().zip([outbox.queue(), inbox.queue()]) {
        let (lease, held) = (side.leased("a").await?, side.leased("b").await?);
        verbs.extend(std::slice::from_ref(&held), 2 * LEASE).await?;
        stage.clock.advance(LEASE + Duration::from_millis(1));
        assert_eq!(verbs.reap(10).await?.total(), 1);
        proxy.cut_next_commits(1);
        let settled = verbs.ack([lease, held]).await?;
        assert_eq!((settled.applied, settled.lost), (1, 1));
    }
    assert_eq!(proxy.cuts(), 2);
    Ok(())
}

async fn a_cancel_is_reported_and_recorded_once<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let outbox = Outbox::new(store);
    let side = stage.side(Queue::Outbox);
    let lease = side.leased("a").await?;
    let waiting = side.add("a").await?;
    let queue = outbox.queue().by(Operator::new("ada")?);
    for (seq, became) in [(waiting, Cancelled::Waiting), (lease.seq(), Cancelled::Asked)] {
        proxy.cut_next_commits(1);
        assert_eq!(queue.cancel(seq).await?, became);
    }
    proxy.cut_next_commits(1);
    assert_eq!(outbox.queue().abandon([lease.clone()], "told to stop", None).await?.applied, 1);
    assert_eq!(proxy.cuts(), 3);
    for seq in [waiting, lease.seq()] {
        assert_eq!(side.state(seq).await?, State::Dismissed);
    }
    let trail = side.verbs().audit(10).await?;
    assert_eq!(trail.iter().map(|entry| entry.messages()).collect::<Vec<_>>(), [2]);
    Ok(())
}

async fn a_claim_comes_back_under_its_lease<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store));
    for (side, verbs) in stage.sides().into_iter().zip([outbox.queue(), inbox.queue()]) {
        side.add_many("a", 9).await?;
        let owner = OwnerToken::new();
        let before = verbs.claim(owner, LEASE, 2).await?.claimed;
        let others = side.claim(2).await?;
        stage.clock.advance(Duration::from_secs(1));
        proxy.cut_next_commits(1);
        let claimed = verbs.claim(owner, LEASE, 3).await?.claimed;
        assert_eq!((before.len(), others.len(), claimed.len()), (2, 2, 3));
        let leases = before.into_iter().chain(others).chain(claimed).map(|claimed| claimed.lease);
        let settled = verbs.ack(leases).await?;
        assert_eq!((settled.applied, settled.lost), (7, 0), "each was claimed once");
        assert_eq!(verbs.stats().await?.leased, 0, "nothing is held that nobody knows of");
    }
    assert_eq!(proxy.cuts(), 2);
    Ok(())
}

async fn an_arrival_is_the_first<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let inbox = Inbox::new(store);
    let draft = Draft::new("a");
    proxy.cut_next_commits(1);
    assert_eq!(inbox.accept(draft.incoming()?).await?, Arrival::First);
    stage.clock.advance(Duration::from_secs(1));
    proxy.cut_next_commits(1);
    assert!(inbox.accept(draft.incoming()?).await?.is_duplicate());
    assert_eq!((proxy.cuts(), stage.side(Queue::Inbox).rows().await?), (2, 1));
    Ok(())
}

struct Cutter {
    proxy: Proxy,
    cut: fn(&Proxy, &str),
    effects: Effects,
    /// The messages it was called with.
    calls: Mutex<Vec<String>>,
}

impl Cutter {
    fn is_first_call_of(&self, message: String) -> bool {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !calls.contains(&message);
        calls.push(message);
        first
    }
}

/// Leaves its effect; the first time, the commit that follows is cut.
async fn be_cut<B: ByWire>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let cutter = ctx.state::<Arc<Cutter>>()?;
    if cutter.is_first_call_of(message.id()) {
        (cutter.cut)(&cutter.proxy, &message.id());
    }
    cutter.effects.note(ctx).await?;
    Ok(None)
}

const HANDLED: usize = 10;

/// Runs handlers whose commits are cut; returns how often they were called.
async fn calls<B: ByWire>(stage: &Stage<B>, cut: fn(&Proxy, &str)) -> anyhow::Result<usize> {
    let (effects, proxy) = (stage.create_effects().await?, Proxy::start(&servers::url(B::VARIABLE))?);
    let store = B::open_in_real_time(&stage.place, proxy.url()).await?;
    let cutter = Arc::new(Cutter { proxy, cut, effects, calls: Mutex::default() });
    let handlers = Handlers::new().state(cutter.clone()).on_topic("a", be_cut::<B>);
    let options = WorkerOptions::default().poll(Duration::from_millis(20)).poll_max(Duration::from_millis(20));
    let worker = Running::start(Worker::<B>::inbox(store, handlers).options(options));
    let side = stage.side(Queue::Inbox);
    for _ in 0..HANDLED {
        let row = side.add("a").await?;
        let done = || async move { Ok(side.state(row).await? == State::Done) };
        eventually("it is done", done).await?;
        assert_eq!(side.record(row).await?.attempts(), 0);
    }
    worker.stop().await?;
    assert_eq!(cutter.proxy.cuts(), HANDLED as u64);
    let mut effects = stage.effects().await?;
    effects.dedup();
    assert_eq!((effects.len(), stage.effects().await?.len()), (HANDLED, HANDLED));
    let calls = cutter.calls.lock().unwrap_or_else(PoisonError::into_inner).len();
    Ok(calls)
}

async fn an_attempt_by_hand_is_counted_once<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let (inbox, key) = (Inbox::new(store), Draft::new("a").key()?);
    assert!(!inbox.already_processed(&key).await?);
    for attempt in 1..=3 {
        stage.clock.advance(Duration::from_secs(1));
        if attempt == 2 {
            proxy.lose_next_commits(1);
        } else {
            proxy.cut_next_commits(1);
        }
        assert!(inbox.mark_processing(&key).await?);
        assert_eq!(inbox.get(&key).await?.map(|row| row.attempts()), Some(attempt));
    }
    assert_eq!(proxy.cuts(), 3);
    Ok(())
}

async fn a_handler_that_was_committed_is_not_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, Proxy::cut_commit_of).await?, HANDLED);
    Ok(())
}

async fn a_handler_that_was_not_committed_is_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, Proxy::lose_commit_of).await?, 2 * HANDLED);
    Ok(())
}
