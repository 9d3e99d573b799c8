//! A COMMIT without an answer: it was carried out or not, and who asked for it is told the truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postroom::{
    Arrival, Ctx, HandlerResult, Handlers, Inbox, Message, NewMessage, Outbox, OwnerToken, Queue, Settle, State, Worker,
};
use postroom_testbed::Proxy;

use crate::by_wire::{ByWire, Effects};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, eventually};
use crate::script::Running;

cases! { in_doubt:
    server an_enqueue_is_reported_as_stored ["OBX-003"];
    server messages_of_a_batch_are_told_from_duplicates [];
    server a_hundred_enqueues_are_each_stored_once [];
    server a_settle_is_reported_as_applied ["OBX-033", "IBX-045"];
    server a_claim_comes_back_under_its_lease ["OBX-017", "IBX-030"];
    server an_arrival_is_the_first [];
    server a_handler_that_was_committed_is_not_run_again ["OBX-058", "IBX-077"];
    server a_handler_that_was_not_committed_is_run_again ["OBX-058", "IBX-077"];
}

async fn an_enqueue_is_reported_as_stored<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    proxy.cut_next_commits(1);
    let stored = Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    assert_eq!((stored.duplicate, proxy.cuts()), (false, 1));
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
    let duplicates: Vec<bool> = stored.iter().map(|stored| stored.duplicate).collect();
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
        assert!(!outbox.enqueue(NewMessage::new("a", "")).await?.duplicate);
    }
    assert_eq!((proxy.cuts(), stage.side(Queue::Outbox).rows().await?), (100, 100));
    Ok(())
}

async fn a_settle_is_reported_as_applied<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store));
    for (side, verbs) in stage.sides().into_iter().zip([outbox.queue(), inbox.queue()]) {
        let second = Duration::from_secs(1);
        let ends: [fn(postroom::Lease) -> postroom::Result<Settle>; 4] = [
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
    cut: fn(&Proxy),
    effects: Effects,
    calls: AtomicU32,
}

/// Leaves its effect; the first time, the commit that follows is cut.
async fn be_cut<B: ByWire>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let cutter = ctx.state::<Arc<Cutter>>()?.clone();
    cutter.effects.note(ctx).await?;
    if cutter.calls.fetch_add(1, Ordering::SeqCst) == 0 {
        (cutter.cut)(&cutter.proxy);
    }
    Ok(None)
}

/// Runs a handler whose commit is cut; returns how often it was called.
async fn calls<B: ByWire>(stage: &Stage<B>, cut: fn(&Proxy)) -> anyhow::Result<u32> {
    let effects = stage.create_effects().await?;
    let (proxy, store) = stage.behind_proxy().await?;
    let cutter = Arc::new(Cutter { proxy, cut, effects, calls: AtomicU32::new(0) });
    let handlers = Handlers::new().state(cutter.clone()).on_topic("a", be_cut::<B>);
    let side = stage.side(Queue::Inbox);
    let row = side.add("a").await?;
    let worker = Running::start(Worker::<B>::inbox(store, handlers));
    let done = || async move { Ok(side.state(row).await? == State::Done) };
    eventually("it is done", done).await?;
    worker.stop().await?;
    assert!(cutter.proxy.cuts() > 0, "nothing was cut");
    assert_eq!(side.record(row).await?.attempts(), 0);
    assert_eq!(stage.effects().await?.len(), 1);
    Ok(cutter.calls.load(Ordering::SeqCst))
}

// A claim may be under way beside the handler, and the first cut may be its: there is a second one for the handler.
async fn a_handler_that_was_committed_is_not_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, |proxy| proxy.cut_next_commits(2)).await?, 1);
    Ok(())
}

async fn a_handler_that_was_not_committed_is_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, |proxy| proxy.lose_next_commits(2)).await?, 2);
    Ok(())
}
