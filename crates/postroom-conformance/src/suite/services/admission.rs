//! What a receiver does with a message whose row is there already, and with one that it may have forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom::clock::{Clock, Timestamp};
use postroom::message::{ContentHash, hash_bytes};
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::services::{ReceiverOptions, Source};
use postroom::sqlite::Sqlite;
use postroom::store::{Memory, MemoryStore};
use postroom::{HandlerError, Incoming, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, Testable, eventually};
use crate::peer::{self, Letter, Peer};
use crate::script::Script;
use crate::services::{Desk, Receives, TOPIC, asynchronous};

cases! { admission:
    worker a_row_that_was_only_seen_is_taken_over ["IBX-006"];
    worker a_row_that_waits_in_line_is_taken_over [];
    worker a_row_that_waits_with_other_content_is_not [];
    worker a_row_with_a_hash_of_another_algorithm_is_taken_over [];
    worker a_row_in_a_workers_hands_is_busy [];
    worker a_dead_row_is_unavailable_until_it_is_revived [];
    worker a_row_past_its_time_is_gone_until_it_is_revived [];
    worker a_message_that_says_when_it_expires_is_not_handled_later [];
    worker a_message_that_expired_after_it_was_handled_is_a_duplicate [];
    worker a_queued_message_that_says_when_it_expires_is_not_handled_later [];
    worker a_refused_message_that_is_revived_is_handled_by_the_worker [];
    worker a_refused_message_that_is_revived_is_handled_when_it_comes_again [];
    worker what_was_enqueued_too_long_ago_is_gone ["SQM-6.4.2", "SQM-13.3"];
    worker what_was_due_too_long_ago_is_gone_and_what_was_due_later_is_not [];
    worker a_source_may_have_a_window_of_its_own [];
    memory a_refusal_is_told_among_the_dead_letters_of_memory [];
    sqlite a_refusal_is_told_among_the_dead_letters [];
}

fn arrived(desk: &Desk<impl Testable>, letter: &Letter) -> anyhow::Result<Incoming> {
    Ok(Incoming::new(desk.peer.key_of(letter)?, &letter.topic, &letter.payload))
}

async fn a_row_that_was_only_seen_is_taken_over<B: Receives>(stage: &Stage<B>) -> Verdict {
    for (n, way) in B::WAYS.iter().enumerate() {
        let script = Script::new(|_| async { Ok(Some("1".into())) });
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC).saying("{\"order\":7}"));
        assert!(!stage.inbox.already_processed(&desk.peer.key_of(&letter)?).await?);
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.payload(), said.is_duplicate()), (200, 1.into(), false));
        assert!(desk.send(&letter).await?.is_duplicate());
        assert_eq!((script.count(), script.calls()[0].payload.as_str()), (1, "{\"order\":7}"));
        assert_eq!(stage.effects_of_messages().await?.len(), n + 1);
    }
    Ok(())
}

async fn a_row_that_waits_in_line_is_taken_over<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        stage.inbox.accept(arrived(&desk, &letter)?).await?;
        assert_eq!(desk.send(&letter).await?.status, 200);
        assert!(stage.side(Queue::Inbox).claim(10).await?.is_empty(), "no worker gets it");
        assert_eq!((desk.send(&letter).await?.is_duplicate(), script.count()), (true, 1));
    }
    Ok(())
}

async fn a_row_that_waits_with_other_content_is_not<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let (desk, letter) = (stage.desk_playing(asynchronous::<B>, &script)?, Letter::new(TOPIC));
    stage.inbox.accept(arrived(&desk, &letter)?.hash(ContentHash::new("sha256-topic-payload", [7; 32])?)).await?;
    assert_eq!((desk.send(&letter).await?.status, script.count()), (422, 0));
    assert_eq!(stage.side(Queue::Inbox).claim(10).await?.len(), 1, "it still waits");
    Ok(())
}

async fn a_row_with_a_hash_of_another_algorithm_is_taken_over<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        stage.inbox.accept(arrived(&desk, &letter)?.hash(hash_bytes(&letter.payload))).await?;
        assert_eq!((desk.send(&letter).await?.status, script.count()), (200, 1), "the receiver hashes the topic too");
    }
    Ok(())
}

async fn a_row_in_a_workers_hands_is_busy<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        stage.inbox.accept(arrived(&desk, &letter)?).await?;
        let side = stage.side(Queue::Inbox);
        let lease = side.claim_one().await?;
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.retry_after()), (409, Some(Duration::from_secs(1))));
        side.ack(lease).await?;
        assert_eq!((desk.send(&letter).await?.is_duplicate(), script.count()), (true, 0));
    }
    Ok(())
}

async fn a_dead_row_is_unavailable_until_it_is_revived<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        stage.inbox.accept(arrived(&desk, &letter)?).await?;
        let side = stage.side(Queue::Inbox);
        side.fail(side.claim_one().await?, "disk on fire").await?;
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, script.count()), (503, 0));
        assert!(!said.error().contains("disk"), "{}", said.error());
        assert_eq!(stage.inbox.queue().revive(Filter::all().state(State::Dead), None).await?, 1);
        assert_eq!((desk.send(&letter).await?.status, script.count()), (200, 1));
    }
    Ok(())
}

async fn a_row_past_its_time_is_gone_until_it_is_revived<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        let side = stage.side(Queue::Inbox);
        stage.inbox.accept(arrived(&desk, &letter)?.expires_after(LEASE)).await?;
        stage.clock.advance(LEASE);
        assert_eq!((desk.send(&letter).await?.status, script.count()), (410, 0), "nobody has marked it yet");
        assert!(side.claim(10).await?.is_empty());
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.error().contains("time to live"), script.count()), (410, true, 0));
        assert_eq!(side.verbs().revive(Filter::all().state(State::Expired), Some(LEASE)).await?, 1);
        assert_eq!((desk.send(&letter).await?.status, script.count()), (200, 1));
    }
    Ok(())
}

/// A letter that says so.
fn expiring(at: Timestamp) -> Letter {
    let mut letter = Letter::new(TOPIC);
    letter.headers.insert("rf-expires-at".into(), at.to_string().into());
    letter
}

async fn a_message_that_says_when_it_expires_is_not_handled_later<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, late) = (stage.desk_playing(*way, &script)?, expiring(stage.now()));
        assert_eq!((desk.send(&late).await?.status, script.count()), (410, 0));
        assert!(stage.row(&desk, &late).await?.is_none(), "nothing is stored");
        assert!(!stage.inbox.already_processed(&desk.peer.key_of(&late)?).await?);
        assert_eq!((desk.send(&late).await?.status, script.count()), (410, 0), "it was only seen");
        let in_time = expiring(stage.now().plus(LEASE));
        assert_eq!((desk.send(&in_time).await?.status, script.count()), (200, 1));
        assert!(script.calls()[0].headers.is_empty(), "it is no header of the message");
        let mut odd = Letter::new(TOPIC);
        odd.headers.insert("rf-expires-at".into(), "soon".into());
        let said = desk.send(&odd).await?;
        assert_eq!((said.status, said.error().contains("RFC 3339"), script.count()), (400, true, 1));
    }
    Ok(())
}

async fn a_message_that_expired_after_it_was_handled_is_a_duplicate<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::new(|_| async { Ok(Some("7".into())) });
        let (desk, letter) = (stage.desk_playing(*way, &script)?, expiring(stage.now().plus(LEASE)));
        assert_eq!(desk.send(&letter).await?.status, 200);
        stage.clock.advance(LEASE * 2);
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.is_duplicate(), said.payload()), (200, true, 7.into()));
        assert_eq!(script.count(), 1);
    }
    Ok(())
}

async fn a_queued_message_that_says_when_it_expires_is_not_handled_later<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let desk = stage.desk(asynchronous::<B>(&script), ReceiverOptions::default().queued())?;
    let (letter, side) = (expiring(stage.now().plus(LEASE)), stage.side(Queue::Inbox));
    assert_eq!(desk.send(&letter).await?.status, 202);
    stage.clock.advance(LEASE);
    assert!(side.claim(10).await?.is_empty());
    let row = stage.row(&desk, &letter).await?.map(|row| row.state());
    assert_eq!(row, Some(State::Expired));
    let said = desk.send(&letter).await?;
    assert_eq!((said.status, said.is_duplicate()), (202, true), "the receiver has it, and knows it");
    Ok(())
}

/// Refuses for good the first time.
fn refusing_once() -> Script {
    let is_first = AtomicBool::new(true);
    Script::new(move |_| {
        let refuses = is_first.swap(false, Ordering::SeqCst);
        async move { if refuses { Err(HandlerError::terminal("no such item")) } else { Ok(Some("7".into())) } }
    })
}

/// A message that was refused and then revived by an operator.
async fn revived<B: Receives>(stage: &Stage<B>, script: &Script) -> anyhow::Result<(Desk<B>, Letter)> {
    let (desk, letter) = (stage.desk_playing(asynchronous::<B>, script)?, Letter::new(TOPIC));
    assert_eq!(desk.send(&letter).await?.status, 422);
    assert_eq!(stage.inbox.queue().revive(Filter::all(), None).await?, 1);
    Ok((desk, letter))
}

async fn a_refused_message_that_is_revived_is_handled_by_the_worker<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = refusing_once();
    let (desk, letter) = revived(stage, &script).await?;
    let worker = stage.work(Queue::Inbox, &script, WorkerOptions::default());
    let side = stage.side(Queue::Inbox);
    eventually("the worker handles it", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
    worker.stop().await?;
    // A claim that the worker gave up when it stopped may hold the row for a moment.
    let (desk, letter) = (&desk, &letter);
    eventually("it is free", || async move { Ok(desk.send(letter).await?.status != 409) }).await?;
    let said = desk.send(letter).await?;
    assert_eq!((said.status, said.is_duplicate(), said.payload()), (200, true, 7.into()));
    assert_eq!(script.count(), 2);
    Ok(())
}

async fn a_refused_message_that_is_revived_is_handled_when_it_comes_again<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = refusing_once();
    let (desk, letter) = revived(stage, &script).await?;
    let said = desk.send(&letter).await?;
    assert_eq!((said.status, said.is_duplicate(), said.payload()), (200, false, 7.into()));
    Ok(())
}

const WINDOW: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_micros(1);

async fn what_was_enqueued_too_long_ago_is_gone<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let desk = stage.desk(asynchronous::<B>(&script), ReceiverOptions::default().window(WINDOW))?;
    let letter = |age| Letter { enqueued_at: Some(stage.now().minus(age)), ..Letter::new(TOPIC) };
    assert_eq!(desk.send(&letter(WINDOW)).await?.status, 200);
    let old = letter(WINDOW + TICK);
    for _ in 0..2 {
        assert_eq!(desk.send(&old).await?.status, 410);
    }
    assert!(stage.row(&desk, &old).await?.is_none(), "it is never stored");
    assert_eq!(script.count(), 1);
    Ok(())
}

async fn what_was_due_too_long_ago_is_gone_and_what_was_due_later_is_not<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let desk = stage.desk(asynchronous::<B>(&script), ReceiverOptions::default().window(WINDOW))?;
    let letter = |due: Duration| {
        let (enqueued, due) = (stage.now().minus(10 * WINDOW), stage.now().minus(due));
        Letter { enqueued_at: Some(enqueued), due_at: Some(due), ..Letter::new(TOPIC) }
    };
    assert_eq!(desk.send(&letter(WINDOW)).await?.status, 200);
    assert_eq!(desk.send(&letter(WINDOW + TICK)).await?.status, 410);
    let due_before_it_was_enqueued = Letter { enqueued_at: Some(stage.now()), ..letter(2 * WINDOW) };
    assert_eq!((desk.send(&due_before_it_was_enqueued).await?.status, script.count()), (200, 2));
    Ok(())
}

async fn a_source_may_have_a_window_of_its_own<B: Receives>(stage: &Stage<B>) -> Verdict {
    let (script, peer) = (Script::succeed(), Peer::new(stage.clock.clone()));
    let source = Source::new("orders", peer::key()?).window(WINDOW);
    let receiver =
        postroom::services::Receiver::new("inventory", stage.store.clone(), asynchronous::<B>(&script), [source])?;
    let desk = Desk { peer, receiver };
    let letter = Letter { enqueued_at: Some(stage.now().minus(2 * WINDOW)), ..Letter::new(TOPIC) };
    let said = desk.send(&letter).await?;
    assert_eq!((said.status, said.header("rf-inbox-retention")), (410, Some("3600")));
    Ok(())
}

/// A receiver on a store that tells deaths under `news` refuses a message, twice; so often that is told.
async fn news<B: Receives>(stage: &Stage<B>, store: B::Store) -> anyhow::Result<usize> {
    let script = Script::new(|_| async { Err(HandlerError::terminal("no such item")) });
    let (peer, options) = (Peer::new(stage.clock.clone()), ReceiverOptions::default());
    let desk = Desk::<B>::open(store.clone(), peer, asynchronous::<B>(&script), options)?;
    let letter = Letter::new(TOPIC);
    assert_eq!((desk.send(&letter).await?.status, desk.send(&letter).await?.status), (422, 422));
    Ok(postroom::Outbox::new(store).queue().list(Filter::all().topic("news")).await?.len())
}

async fn a_refusal_is_told_among_the_dead_letters_of_memory(stage: &Stage<Memory>) -> Verdict {
    let store = MemoryStore::with_dead_letters(Clock::Manual(stage.clock.clone()), Some("news".into()));
    assert_eq!(news(stage, store).await?, 1);
    Ok(())
}

async fn a_refusal_is_told_among_the_dead_letters(stage: &Stage<Sqlite>) -> Verdict {
    let store = stage.place.sqlite_options().dead_letters("news").open().await?;
    assert_eq!(news(stage, store).await?, 1);
    Ok(())
}
