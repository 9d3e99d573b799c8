//! What a transaction of the caller's own may rely on: the same through every driver.

use std::time::Duration;

use postroom::message::{ContentHash, OwnerToken, Unique};
use postroom::queue::{Lease, Queue, State};
use postroom::{ErrorKind, Inbox, InboxKey, Incoming, NewMessage, WorkerOptions};

use super::by_rusqlite::Rusqlite;
use super::by_sqlx::Sqlx;
use super::by_sqlx_08::Sqlx08;
use super::by_tiberius::Tiberius;
use super::by_tokio_postgres::TokioPostgres;
use super::caller::{Caller, CallersTx};
use crate::case::{Case, Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, Testable, eventually, readable, refused};
use crate::script::Script;

macro_rules! through {
    ($($driver:ident on $backend:ident: $caller:ty;)*) => { [$(through!(@promises $driver, $backend, $caller)),*] };
    (@promises $driver:ident, $backend:ident, $caller:ty) => {
        through!(@each $driver, $backend, $caller:
            a_commit_brings_the_message_and_wakes_the_worker ["OBX-003", "SQM-3.2.1"];
            a_rollback_leaves_nothing ["OBX-003", "SQM-3.2.1"];
            the_transaction_is_the_callers_to_end ["OBX-003"];
            a_duplicate_is_told_and_the_transaction_goes_on ["OBX-003"];
            a_unique_key_is_taken_with_the_commit [];
            a_message_that_keeps_another_out_is_handled_after_the_commit [];
            a_key_that_was_taken_after_the_transaction_began_is_seen [];
            an_accept_commits_with_the_caller [];
            an_accept_puts_a_seen_message_in_line [];
            an_ack_commits_with_the_caller [];
            a_lost_lease_rolls_the_caller_back [];
            text_is_kept_exactly [];
            a_missing_table_is_told ["API-9.2"]
        )
    };
    (@each $driver:ident, $backend:ident, $caller:ty: $($case:ident [$($id:literal),*]);*) => {
        &[$(Case {
            name: concat!("own_tx::", stringify!($driver), "::", stringify!($case)),
            proves: &[$($id),*],
            on: &[(
                <crate::backends::$backend as Testable>::NAME,
                cases!(@staged crate::backends::$backend, $case::<$caller>),
            )],
        }),*]
    };
}

pub(in crate::suite) const CASES: [&[Case]; 7] = through! {
    rusqlite on Sqlite: Rusqlite;
    sqlx on Sqlite: Sqlx<sqlx::Sqlite>;
    sqlx on Postgres: Sqlx<sqlx::Postgres>;
    sqlx on MySql: Sqlx<sqlx::MySql>;
    sqlx_08 on Postgres: Sqlx08;
    tokio_postgres on Postgres: TokioPostgres;
    tiberius on Mssql: Tiberius;
};

async fn a_commit_brings_the_message_and_wakes_the_worker<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let hour = Duration::from_secs(3600);
    let script = Script::succeed();
    let worker = stage.work(Queue::Outbox, &script, WorkerOptions::default().poll(hour).poll_max(hour));
    let queue = stage.outbox.queue();
    for n in 1..=5 {
        let mut tx = caller.begin().await?;
        tx.order().await?;
        let enqueued = tx.enqueue(&stage.outbox, &NewMessage::new("order.placed", "7")).await?;
        assert!(!enqueued.is_duplicate());
        tx.commit().await?;
        drop(enqueued);
        eventually("it is handled", || async move { Ok(queue.stats().await?.done == n) }).await?;
        assert_eq!(caller.orders().await?, i64::try_from(n)?);
    }
    assert_eq!(script.count(), 5);
    worker.stop().await
}

async fn a_rollback_leaves_nothing<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let mut tx = caller.begin().await?;
    tx.order().await?;
    let enqueued = tx.enqueue(&stage.outbox, &NewMessage::new("order.placed", "7")).await?;
    assert!(tx.accept(&stage.inbox, &Draft::new("a").incoming()?).await?);
    tx.roll_back().await?;
    drop(enqueued);
    assert_eq!((stage.outbox.queue().stats().await?.total(), stage.inbox.queue().stats().await?.total()), (0, 0));
    assert_eq!(caller.orders().await?, 0);
    Ok(())
}

async fn the_transaction_is_the_callers_to_end<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let mut tx = caller.begin().await?;
    let first = tx.enqueue(&stage.outbox, &NewMessage::new("a", "1")).await?;
    assert_eq!(stage.outbox.queue().stats().await?.total(), 0, "others see it before the commit");
    refused(tx.enqueue(&stage.outbox, &NewMessage::new("", "")).await, ErrorKind::InvalidInput, "no topic")?;
    // A message that is not allowed never reached the database: the rest of the transaction stands.
    let second = tx.enqueue(&stage.outbox, &NewMessage::new("a", "2").to("billing")).await?;
    tx.commit().await?;
    for enqueued in [first, second] {
        assert_eq!(stage.outbox.find(enqueued.id().as_uuid()).await?.len(), 1);
    }
    Ok(())
}

async fn a_duplicate_is_told_and_the_transaction_goes_on<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let message = NewMessage::new("a", "");
    for (n, is_there) in [(1, false), (2, true)] {
        let mut tx = caller.begin().await?;
        let first = tx.enqueue(&stage.outbox, &message).await?;
        let again = tx.enqueue(&stage.outbox, &message).await?;
        assert_eq!((first.is_duplicate(), again.is_duplicate()), (is_there, true));
        tx.order().await?;
        tx.commit().await?;
        assert_eq!((stage.outbox.queue().stats().await?.total(), caller.orders().await?), (1, n));
    }
    Ok(())
}

/// On SQL Server there are no unique keys, and it says so.
async fn has_no_keys<C: Caller>(stage: &Stage<C::Backend>, caller: &mut C) -> anyhow::Result<bool> {
    if <C::Backend as Testable>::NAME != "mssql" {
        return Ok(false);
    }
    let mut tx = caller.begin().await?;
    let unique = NewMessage::new("a", "").unique(Unique::while_waiting("a"));
    refused(tx.enqueue(&stage.outbox, &unique).await, ErrorKind::Unsupported, "unique keys")?;
    tx.roll_back().await?;
    Ok(true)
}

async fn a_unique_key_is_taken_with_the_commit<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    if has_no_keys(stage, &mut caller).await? {
        return Ok(());
    }
    let message = || NewMessage::new("a", "").unique(Unique::until_done("the key"));
    let mut tx = caller.begin().await?;
    assert!(!tx.enqueue(&stage.outbox, &message()).await?.is_duplicate());
    tx.roll_back().await?;
    let mut tx = caller.begin().await?;
    let first = tx.enqueue(&stage.outbox, &message()).await?;
    let again = tx.enqueue(&stage.outbox, &message()).await?;
    assert!(!first.is_duplicate() && again.is_duplicate() && again.id() == first.id(), "{first:?} {again:?}");
    let replacing = message().unique(Unique::while_waiting("the key").or_replace());
    let second = tx.enqueue(&stage.outbox, &replacing).await?;
    assert_eq!(second.replaced(), Some(first.id()));
    tx.commit().await?;
    let mut tx = caller.begin().await?;
    let refusing = message().unique(Unique::while_waiting("the key").or_refuse());
    let why = second.id().to_string();
    refused(tx.enqueue(&stage.outbox, &refusing).await, ErrorKind::Duplicate, &why)?;
    // The rest of the transaction stands.
    tx.order().await?;
    tx.commit().await?;
    let stats = stage.outbox.queue().stats().await?;
    assert_eq!((stats.ready, stats.dismissed, caller.orders().await?), (1, 1, 1));
    Ok(())
}

/// Otherwise the handler could run before it can see what the caller wrote, and nothing would run after it.
async fn a_message_that_keeps_another_out_is_handled_after_the_commit<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    if has_no_keys(stage, &mut caller).await? {
        return Ok(());
    }
    let message = || NewMessage::new("a", "").unique(Unique::while_waiting("the key"));
    let first = stage.outbox.enqueue(message()).await?;
    let mut tx = caller.begin().await?;
    let kept_out = tx.enqueue(&stage.outbox, &message()).await?;
    assert!(kept_out.is_duplicate() && kept_out.id() == first.id());
    let claim = stage.outbox.queue().claim(OwnerToken::new(), LEASE, 10);
    if <C::Backend as Testable>::NAME == "sqlite" {
        // Nobody else can write.
        let (claimed, committed) = tokio::join!(claim, tx.commit());
        committed?;
        assert_eq!(claimed?.claimed.len(), 1);
        return Ok(());
    }
    assert!(claim.await?.claimed.is_empty(), "its handler would not see what the caller writes");
    tx.order().await?;
    tx.commit().await?;
    assert_eq!(stage.side(Queue::Outbox).claim(10).await?.len(), 1);
    Ok(())
}

/// Whatever the isolation: a key is no row of a snapshot.
async fn a_key_that_was_taken_after_the_transaction_began_is_seen<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    // On SQLite nobody else can write meanwhile.
    if <C::Backend as Testable>::NAME == "sqlite" || has_no_keys(stage, &mut caller).await? {
        return Ok(());
    }
    let message = |key: &str| NewMessage::new("a", "").unique(Unique::while_waiting(key));
    let mut tx = caller.begin().await?;
    // It looks at the tables, and so it has a snapshot from then on.
    let _one = tx.enqueue(&stage.outbox, &message("one")).await?;
    let first = stage.outbox.enqueue(message("two")).await?;
    let second = tx.enqueue(&stage.outbox, &message("two")).await?;
    assert!(second.is_duplicate() && second.id() == first.id(), "{second:?}");
    tx.commit().await?;
    assert_eq!(stage.outbox.queue().stats().await?.ready, 2);
    Ok(())
}

async fn an_accept_commits_with_the_caller<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    stage.setup.logs.listen();
    let mut caller = C::connect(stage).await?;
    let incoming = Draft::new("a").incoming()?;
    let mut tx = caller.begin().await?;
    assert!(tx.accept(&stage.inbox, &incoming).await?, "it is new");
    assert!(!tx.accept(&stage.inbox, &incoming).await?, "it is known to the same transaction");
    tx.order().await?;
    tx.commit().await?;
    assert_eq!((stage.inbox.queue().stats().await?.ready, caller.orders().await?), (1, 1));
    let mut tx = caller.begin().await?;
    assert!(!tx.accept(&stage.inbox, &incoming).await?, "it is known");
    tx.order().await?;
    tx.commit().await?;
    assert_eq!((stage.inbox.queue().stats().await?.ready, caller.orders().await?), (1, 2));
    let told = stage.setup.logs.saying("inbox: message enqueued");
    let firsts: Vec<_> = told.iter().map(|line| (line.field("topic"), line.field("first"))).collect();
    assert_eq!(firsts, [(Some("a"), Some("true")), (Some("a"), Some("false")), (Some("a"), Some("false"))]);
    Ok(())
}

/// A program that first asks whether it was handled must be able to accept it then.
async fn an_accept_puts_a_seen_message_in_line<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let draft = Draft::new("a").payload("seen");
    assert!(!stage.inbox.already_processed(&draft.key()?).await?);
    let mut tx = caller.begin().await?;
    assert!(tx.accept(&stage.inbox, &draft.incoming()?).await?, "it was only seen, and nobody will handle it");
    assert!(!tx.accept(&stage.inbox, &draft.incoming()?).await?, "now it is in line");
    tx.commit().await?;
    let claimed = stage.side(Queue::Inbox).claim(5).await?;
    let payloads: Vec<_> = claimed.iter().filter_map(|claimed| claimed.message.as_ref().ok()).collect();
    assert_eq!(payloads.iter().map(|message| message.payload.as_str()).collect::<Vec<_>>(), ["seen"]);
    Ok(())
}

async fn an_ack_commits_with_the_caller<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let side = stage.side(Queue::Inbox);
    let lease = side.leased("a").await?;
    for commits in [false, true] {
        let mut tx = caller.begin().await?;
        tx.order().await?;
        tx.ack(&stage.inbox, &lease, Some("answer")).await?;
        let ended = if commits { tx.commit().await } else { tx.roll_back().await };
        ended?;
        let expected = if commits { State::Done } else { State::Leased };
        assert_eq!((side.state(lease.seq()).await?, caller.orders().await?), (expected, i64::from(commits)));
    }
    assert_eq!(side.record(lease.seq()).await?.response(), Some("answer"));
    Ok(())
}

async fn a_lost_lease_rolls_the_caller_back<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let side = stage.side(Queue::Inbox);
    let stale = side.leased("a").await?;
    stage.clock.advance(LEASE + Duration::from_secs(2));
    let fresh = side.claim_one().await?;
    refused(handle(&mut caller, &stage.inbox, &stale).await, ErrorKind::LeaseLost, "a stale ack")?;
    assert_eq!(caller.orders().await?, 0, "what a worker without its lease did was committed");
    handle(&mut caller, &stage.inbox, &fresh).await?;
    refused(handle(&mut caller, &stage.inbox, &fresh).await, ErrorKind::LeaseLost, "a second ack")?;
    assert_eq!((side.state(fresh.seq()).await?, caller.orders().await?), (State::Done, 1));
    Ok(())
}

/// As a program writes it: `?` leaves before the commit.
async fn handle<C: Caller>(caller: &mut C, inbox: &Inbox, lease: &Lease) -> postroom::Result<()> {
    let mut tx = caller.begin().await.map_err(postroom::Error::callback)?;
    tx.order().await.map_err(postroom::Error::callback)?;
    tx.ack(inbox, lease, None).await?;
    tx.commit().await.map_err(postroom::Error::callback)
}

async fn text_is_kept_exactly<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let odd = "🦀 'single' \"double\" `back` \\ %s $1 ?1 {x} \r\n\t e\u{301} é ß \u{200b}\u{feff}\u{7f}\u{1}";
    let long = odd.repeat(1_000_000 / odd.len() + 1);
    let name = "🦀 'O''Brien' \\ \"é\"";
    let mut tx = caller.begin().await?;
    let message = NewMessage::new(name, &long).to("orders-2.eu_west").correlation_id(name).header(name, odd);
    let enqueued = tx.enqueue(&stage.outbox, &message).await?;
    let key = InboxKey::new(name, name)?;
    let incoming = Incoming::new(key.clone(), name, &long)
        .correlation_id(name)
        .header(name, odd)
        .hash(ContentHash::new("odd", [0, 255, 39])?);
    let incoming = incoming.expires_after(LEASE * 9);
    assert!(tx.accept(&stage.inbox, &incoming).await?);
    tx.commit().await?;

    let lease = stage.side(Queue::Inbox).claim_one().await?;
    let mut tx = caller.begin().await?;
    tx.ack(&stage.inbox, &lease, Some(&long)).await?;
    tx.commit().await?;

    let sent = stage.outbox.find(enqueued.id().as_uuid()).await?;
    let received = stage.inbox.get(&key).await?.into_iter().collect::<Vec<_>>();
    assert_eq!(readable(&sent[0])?.destination(), Some("orders-2.eu_west"));
    assert_eq!(received[0].response(), Some(long.as_str()));
    assert_eq!(received[0].expires_at(), Some(stage.now().plus(LEASE * 9)));
    for record in [&sent[0], &received[0]] {
        let message = readable(record)?;
        assert!(message.payload == long, "{} bytes came back as {}", long.len(), message.payload.len());
        assert_eq!((message.topic.as_str(), message.correlation_id.as_deref()), (name, Some(name)));
        assert_eq!(message.headers.get(name).map(String::as_str), Some(odd));
    }
    Ok(())
}

async fn a_missing_table_is_told<C: Caller>(stage: &Stage<C::Backend>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    caller.say(C::DROP_OUTBOX).await?;
    let mut tx = caller.begin().await?;
    refused(tx.enqueue(&stage.outbox, &NewMessage::new("a", "")).await, ErrorKind::Schema, "a missing table")
}
